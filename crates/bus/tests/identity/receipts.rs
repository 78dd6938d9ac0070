//! Receipts of control commands.

use muster_bus::receipts::{self, Receipt};

use crate::{World, seat};

// spec: STO-014
#[test]
fn a_receipt_is_a_line_of_its_agents_file_and_is_found_by_its_message() {
    let world = World::new();
    assert_eq!(receipts::find(&world.home, &seat("alice"), "m1").unwrap(), None);
    let mut receipt = Receipt::new(&world.home, &seat("alice"), "m1", "lead");
    receipt.control = true;
    receipt.submitted = Some(false);
    receipt.reason = Some("the pane holds a draft".to_owned());
    receipts::write(&world.home, &seat("alice"), &receipt).unwrap();
    assert_eq!(
        receipts::find(&world.home, &seat("alice"), "m1").unwrap(),
        Some(receipt.clone())
    );
    assert_eq!(receipts::find(&world.home, &seat("alice"), "m2").unwrap(), None);
    assert_eq!(receipts::find(&world.home, &seat("bob"), "m1").unwrap(), None);

    receipt.submitted = Some(true);
    receipt.reason = None;
    receipt.build = Some("b1".into());
    receipts::write(&world.home, &seat("alice"), &receipt).unwrap();
    assert_eq!(
        receipts::find(&world.home, &seat("alice"), "m1").unwrap(),
        Some(receipt)
    );
    let text = std::fs::read_to_string(world.dir.path().join("receipts/alice.jsonl")).unwrap();
    let row: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&row["id"], &row["agentId"], &row["from"]),
        (&"m1".into(), &"alice".into(), &"lead".into())
    );
    assert_eq!(
        (&row["control"], &row["submitted"], &row["build"]),
        (&true.into(), &true.into(), &"b1".into())
    );
    assert_eq!(row.get("reason"), None);
}

#[test]
fn another_programs_receipt_is_read_with_its_own_fields() {
    let world = World::new();
    world.put(
        "receipts/alice.jsonl",
        "{\"id\":\"m1\",\"agentId\":\"alice\",\"ts\":5.5,\"from\":\"lead\",\"control\":true,\"build\":1785.25,\"pane\":\"%1\"}\nnot json\n{\"id\":\"torn",
    );
    let receipt = receipts::find(&world.home, &seat("alice"), "m1")
        .unwrap()
        .unwrap();
    assert_eq!(
        (receipt.ts, receipt.build, &receipt.more["pane"]),
        (5, Some(1785.25.into()), &"%1".into())
    );
    // A torn line is no receipt, and does not swallow the next one.
    assert_eq!(receipts::find(&world.home, &seat("alice"), "torn").unwrap(), None);
    receipts::write(
        &world.home,
        &seat("alice"),
        &Receipt::new(&world.home, &seat("alice"), "m2", "lead"),
    )
    .unwrap();
    assert!(
        receipts::find(&world.home, &seat("alice"), "m2")
            .unwrap()
            .is_some()
    );
}

#[test]
fn pruning_deletes_the_aged_ones_and_archives_none() {
    let world = World::new();
    for (id, agent) in [("old-1", "alice"), ("old-2", "bob")] {
        receipts::write(
            &world.home,
            &seat(agent),
            &Receipt::new(&world.home, &seat(agent), id, "lead"),
        )
        .unwrap();
    }
    world.pass(100);
    let before = world.home.now();
    receipts::write(
        &world.home,
        &seat("alice"),
        &Receipt::new(&world.home, &seat("alice"), "new", "lead"),
    )
    .unwrap();

    assert_eq!(receipts::aged(&world.home, before).unwrap(), 2);
    assert_eq!(receipts::prune(&world.home, before).unwrap(), 2);
    assert_eq!(
        (
            receipts::aged(&world.home, before).unwrap(),
            receipts::prune(&world.home, before).unwrap()
        ),
        (0, 0)
    );
    assert_eq!(
        receipts::find(&world.home, &seat("alice"), "old-1").unwrap(),
        None
    );
    assert!(
        receipts::find(&world.home, &seat("alice"), "new")
            .unwrap()
            .is_some()
    );
    assert!(!world.exists("archive"));
}

//! Reading a pane's screen.

use muster_bus::push::Transport as _;

use crate::support::{Tmux, wait};

// spec: TOOL-027
#[test]
fn a_pane_is_read_with_and_without_its_colours() {
    let tmux = Tmux::new();
    let pane = tmux.start(
        "colours",
        &[],
        &[
            "sh",
            "-c",
            r"printf '\033[31mred\n\033[1mbold\033[0m plain\n'; sleep 100",
        ],
    );
    let panes = tmux.panes();
    wait("the text", || tmux.screen(&pane).contains("plain"));
    let plain = panes.read(&pane, 200, false).unwrap();
    assert_eq!(plain.text, "red\nbold plain\n");
    let coloured = panes.read(&pane, 1, true).unwrap();
    assert!(
        coloured.text.ends_with("plain\n") && !coloured.text.contains("red\n"),
        "{:?}",
        coloured.text
    );
    assert!(
        coloured.text.starts_with("\x1b[0;38;5;1m"),
        "the colour began a row above: {:?}",
        coloured.text
    );
}

#[test]
fn the_newest_rows_are_read_with_what_scrolled_off() {
    let tmux = Tmux::new();
    let pane = tmux.start("rows", &[], &["sh", "-c", "seq 1 500; sleep 100"]);
    let panes = tmux.panes();
    wait("the rows", || tmux.screen(&pane).contains("500"));
    for lines in [1, 10, 200] {
        let shown = panes.read(&pane, lines, false).unwrap().text;
        let expected: String = (501 - lines..=500).map(|number| format!("{number}\n")).collect();
        assert_eq!(shown, expected);
    }
}

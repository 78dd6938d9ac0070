//! Keeping the directory: retention, health, write scopes, work documents. Never decides what is old or owned: the library does.

use std::path::Path;

use serde_json::json;

use super::args::{Doctor, ExportWork, ImportWork, ListWork, Prune, Scopes};
use super::{Call, Said, object, said};
use crate::doctor;
use crate::error::BusError;
use crate::names::{RoomName, SeatId};
use crate::prune::{self, Target};
use crate::scopes;
use crate::work::{self, Filter, Place};

pub(super) fn prune(call: &Call<'_>, args: Prune) -> Said {
    let want = prune::Want {
        older_than_days: args.older_than_days,
        decision_days: args.decision_days,
        room: args.room.as_deref().map(RoomName::parse).transpose()?,
        targets: args
            .targets
            .map(|targets| targets.iter().map(|target| Target::parse(target)).collect())
            .transpose()?,
        archive_empty_rooms: args.archive_empty_rooms.unwrap_or(true),
        remove_orphan_inboxes: args.remove_orphan_inboxes,
        dry_run: args.dry_run.unwrap_or(false),
    };
    said(&prune::prune(call.home(), &want)?)
}

pub(super) fn doctor(call: &Call<'_>, args: Doctor) -> Said {
    let options = doctor::Options {
        fix: args.fix.unwrap_or(false),
        max_file_bytes: args.max_file_bytes,
        ..doctor::Options::default()
    };
    said(&doctor::doctor(call.home(), &options))
}

pub(super) fn list_scopes(call: &Call<'_>, args: Scopes) -> Said {
    let home = call.home();
    match (args.path, args.agent_id) {
        (Some(path), Some(id)) => said(&scopes::may_write(home, &path, &SeatId::parse(&id)?)?),
        (Some(path), None) => {
            let scope = scopes::owner(home, &path)?;
            Ok(object! {"path": path, "owned": scope.is_some(), "scope": scope})
        }
        (None, None) => Ok(object! {"documents": scopes::list(home)?}),
        (None, Some(_)) => Err(BusError::Argument("agentId asks about a path; name one")),
    }
}

fn place(repo: Option<&str>) -> Place<'_> {
    Place {
        repo: repo.map(Path::new),
        default_repo: None,
    }
}

pub(super) fn import_work(call: &Call<'_>, args: ImportWork) -> Said {
    said(&work::import_work(
        call.home(),
        &args.project,
        place(args.repo.as_deref()),
    )?)
}

pub(super) fn list_work(call: &Call<'_>, args: ListWork) -> Said {
    let filter = Filter {
        kind: args.kind,
        priority: args.priority.as_deref(),
        include_done: args.include_done.unwrap_or(false),
    };
    said(&work::list_work(
        call.home(),
        &args.project,
        filter,
        place(args.repo.as_deref()),
    )?)
}

pub(super) fn export_work(call: &Call<'_>, args: ExportWork) -> Said {
    let write = args.write.unwrap_or(false);
    let export = |seat: Option<&SeatId>| {
        let exported = work::export_work(
            call.home(),
            &args.project,
            write,
            seat,
            place(args.repo.as_deref()),
        )?;
        let mut body = said(&exported)?;
        body.insert("wrote".to_owned(), json!(write));
        Ok(body)
    };
    match &args.agent_id {
        Some(id) => call.acting(id, |seat| export(Some(seat))),
        None => export(None),
    }
}

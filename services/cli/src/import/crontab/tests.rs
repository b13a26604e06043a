use super::{Common, Crontab, crontab};
use crate::import::{Import, Verdict};

fn user(text: &str) -> Import {
    crontab(text, &Crontab::default())
}

fn refused(import: &Import) -> Vec<String> {
    let refused = import.remarks.iter().filter(|remark| remark.verdict == Verdict::Refused);
    refused.map(ToString::to_string).collect()
}

#[test]
fn each_entry_is_a_job_with_the_settings_above_it() {
    let import = user(
        "# The books\n# of each day\nCRON_TZ=Europe/Berlin\nLANG=C\n0 9 * * 1-5 /opt/close-books.sh\n\n# gone\n\nCRON_TZ=\n\
         SHELL=/bin/bash\nHOME=/srv\nRANDOM_DELAY=5\n@hourly sync --all\n",
    );
    assert_eq!(refused(&import), [] as [&str; 0]);
    let [books, sync] = &import.documents[..] else { panic!("two jobs: {import:?}") };
    assert_eq!(
        books.to_yaml().expect("YAML"),
        "# The books\n# of each day\nkind: Job\nname: close-books\nschedule: 0 9 * * 1-5\ntimezone: Europe/Berlin\noverlap: ALLOW\nrun:\n  exec:\n    \
         shell: /opt/close-books.sh\n    env:\n      LANG: C\n"
    );
    assert_eq!(sync.run.exec.argv, ["/bin/bash", "-c", "sync --all"]);
    assert_eq!(sync.run.exec.working_directory.as_deref(), Some("/srv"));
    assert_eq!((sync.timezone.as_deref(), sync.jitter.as_deref()), (None, Some("5m")));
    assert!(sync.comments.is_empty());
}

#[test]
fn comments_right_above_an_entry_stay_with_it() {
    let import = user("# far\n\n# near\n# and nearer\n0 0 * * * a\n0 0 * * * b\n");
    assert_eq!(import.documents[0].comments, ["near", "and nearer"]);
    assert!(
        import.documents[0]
            .to_yaml()
            .expect("YAML")
            .starts_with("# near\n# and nearer\nkind: Job\nname: a\n")
    );
    assert!(import.documents[1].comments.is_empty());
}

#[test]
fn input_after_a_percent_sign_is_piped_into_the_command() {
    let import = user("0 0 * * * mail -s \"it's\" root%Hello%World\n0 1 * * * date +\\%F\n");
    let shell = |index: usize| import.documents[index].run.exec.shell.as_deref();
    assert_eq!(shell(0), Some("printf '%s\\n' 'Hello\nWorld' | /bin/sh -c 'mail -s \"it'\\''s\" root'"));
    assert_eq!(shell(1), Some("date +%F"));
}

#[test]
fn what_has_no_time_or_a_wrong_one_is_refused_by_its_line() {
    let import = user("@reboot /opt/start\n0 9 * *\n0 25 * * * x\nCRON_TZ=Mars/Base\n0 0 * * * y\n");
    let refused = refused(&import);
    assert!(refused[0].starts_with("line 1: refused: @reboot names no time"), "{refused:?}");
    assert!(refused[1].starts_with("line 2: refused: 4 of 5 fields"), "{refused:?}");
    assert!(refused[2].starts_with("line 3: refused: hour 25"), "{refused:?}");
    assert!(refused[3].starts_with("line 5: refused:") && refused[3].contains("Mars/Base"), "{refused:?}");
    assert_eq!((refused.len(), import.refused(), import.documents.len()), (4, 4, 0));
    assert_eq!(import.remarks.len(), 4, "nothing to say of jobs when there are none");
}

#[test]
fn a_system_crontab_names_users_and_what_differs_is_said() {
    let about = Crontab {
        system: true,
        common: Common { prefix: "web1-".into(), channels: vec!["oncall".into()], ..Common::default() },
    };
    let import = crontab(
        "MAILTO=ops@example.com\nMAILTO=\"\"\n17 * * * * root cd / && run-parts /etc/cron.hourly\n",
        &about,
    );
    assert_eq!(import.documents[0].name, "web1-run-parts");
    assert_eq!(import.documents[0].run.exec.shell.as_deref(), Some("cd / && run-parts /etc/cron.hourly"));
    let remarks: Vec<_> = import.remarks.iter().map(ToString::to_string).collect();
    assert!(
        remarks[0].starts_with("line 1: differs: MAILTO=ops@example.com: output is not mailed"),
        "{remarks:?}"
    );
    assert_eq!(remarks[1], "line 3: mapped: job web1-run-parts");
    assert!(remarks[2].starts_with("differs: times are read as UTC"), "{remarks:?}");
    assert!(remarks[3].contains("not as root"), "{remarks:?}");
    assert!(import.to_yaml().expect("YAML").contains("alert:\n  channels:\n  - oncall\n"));
}

#[test]
fn hostile_text_ends_in_remarks() {
    for text in ["\0\0\0\0\0 x", "* * * * * \u{202e}", "====", "@", "@every x y", "%%%%% a b c d e f"] {
        let import = user(text);
        assert_eq!(import.documents.len() + import.refused(), 1, "{text:?}: {import:?}");
    }
}

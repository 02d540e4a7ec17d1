//! The roles of `packaging/roles.sql` on a real PostgreSQL: what each may do, and what it may not.

#![allow(missing_docs, reason = "tests")]

mod support;

use outlast::prelude::*;
use outlast_store::{OpenOptions, StoreError};
use outlast_testkit::{StoreKind, TestDatabase, World, skipped};
use support::Shop;
use tokio::sync::mpsc;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

const ROLES: &str = include_str!("../../../packaging/roles.sql");
const DROP: &str = include_str!("../../../packaging/roles-drop.sql");

/// What tenants may read of their own. Whoever adds a table decides: one that is for them is named here, and its rows are theirs
/// alone; one that is not is kept from them.
const OF_TENANTS: [&str; 18] = [
    "agenda",
    "doing",
    "failure_minutes",
    "failure_versions",
    "failures",
    "inbox",
    "journal",
    "keys",
    "kv",
    "logs",
    "promises",
    "results",
    "rollup_times",
    "rollup_waits",
    "rollups",
    "runs",
    "tags",
    "uniques",
];
/// The same of views, where the server looks through them with the reader's own rights.
const VIEWS_OF_TENANTS: [&str; 3] = ["show_journal", "show_kv", "show_runs"];
/// What only programs read.
const SECRET: [&str; 3] = ["replies", "sessions", "tokens"];

/// A migrated database with roles of its own: names are known to a whole cluster, and tests run side by side.
struct Place {
    url: String,
    prefix: String,
    admin: Client,
    _world: World,
}

impl Place {
    async fn new() -> Place {
        let world = World::open(StoreKind::Postgres, 1).await;
        let (url, prefix) = (world.url().to_owned(), prefix());
        let place = Place { admin: connect(&url).await, url, prefix, _world: world };
        place.apply().await;
        place
    }

    fn role(&self, name: &str) -> String {
        format!("{}_{name}", self.prefix)
    }

    /// Where one of the roles connects.
    fn url_of(&self, role: &str) -> String {
        url_as(&self.url, &self.role(role))
    }

    async fn client(&self, role: &str) -> Client {
        connect(&self.url_of(role)).await
    }

    async fn apply(&self) {
        apply(&self.admin, &self.prefix, ROLES).await.unwrap();
    }

    /// Somebody of a tenant who may log in.
    async fn tenant(&self, name: &str) -> String {
        let role = self.role(name);
        let make = format!("create role {role} login in role {}", self.role("tenant"));
        self.admin.batch_execute(&make).await.unwrap();
        role
    }

    async fn texts(&self, sql: &str) -> Vec<String> {
        texts(&self.admin, sql).await
    }

    /// Tables and views of ours.
    async fn relations(&self) -> Vec<String> {
        self.texts("select table_name::text from information_schema.tables where table_schema = 'outlast' order by 1").await
    }
}

fn prefix() -> String {
    format!("r{:016x}", fastrand::u64(..))
}

fn url_as(url: &str, role: &str) -> String {
    format!("postgres://{role}@{}", url.split_once('@').unwrap().1)
}

async fn connect(url: &str) -> Client {
    let (client, connection) = url.parse::<Config>().unwrap().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn apply(client: &Client, prefix: &str, text: &str) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(&format!("set outlast.roles = '{prefix}'")).await?;
    client.batch_execute(text).await
}

async fn texts(client: &Client, sql: &str) -> Vec<String> {
    let rows = client.query(sql, &[]).await.unwrap_or_else(|error| panic!("{error:?}: {sql}"));
    rows.iter().map(|row| row.get(0)).collect()
}

async fn assert_refused(client: &Client, sql: &str) {
    let error = client.batch_execute(sql).await.expect_err(sql);
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sql}: {error:?}");
}

async fn order(ctx: Ctx, item: String) -> Result<String, AnyError> {
    ctx.step("reserve", |_| async { Ok::<_, AnyError>(7) }).await?;
    ctx.kv().set("last", &item).await?;
    let by = ctx.event::<String>("approval").await?;
    ctx.sleep(std::time::Duration::from_millis(1)).await?;
    ctx.step("ship", |_| async { Ok::<_, AnyError>(()) }).await?;
    Ok(format!("{item} approved by {by}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_program_runs_on_postgres_with_a_role_that_may_change_rows_alone() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    let (fired, mut firings) = mpsc::unbounded_channel();
    let tick = Job::new("tick", move |_job: JobCtx, _: ()| {
        let fired = fired.clone();
        async move {
            let _ = fired.send(());
            Ok::<_, AnyError>(())
        }
    });
    let order = Workflow::new("order", order);
    let app = Outlast::open(&place.url_of("runtime"))
        .await
        .unwrap()
        .workflow(order.clone())
        .job(tick.clone().queue("ticks"))
        .queue(Queue::new("ticks").limit(2))
        .schedule(Schedule::every("often", std::time::Duration::from_secs(1)), &tick, ())
        .run()
        .await
        .unwrap();
    let run = app
        .client()
        .start(order, "tea".to_owned())
        .key("1")
        .tag("city", "Bern")
        .tenant("acme")
        .await
        .unwrap();
    run.send("approval", "ann").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "tea approved by ann");
    firings.recv().await.expect("the schedule starts a run");

    // What the commands do beside it.
    let shop = Shop::at(&place.url_of("runtime"));
    shop.ok(&["queue", "pause", "ticks"]);
    shop.ok(&["token", "create", "ann", "--role", "admin"]);
    shop.ok(&["audit", "verify"]);
    shop.ok(&["verify"]);
    shop.ok(&["migrate", "status"]);
    shop.ok(&["purge", "--older-than", "0s", "--yes"]);
    let doctor = shop.run(&["doctor"]).out;
    assert!(doctor.contains("✓ privileges"), "{doctor}");
    app.shutdown(std::time::Duration::from_secs(5)).await.unwrap();

    let runtime = place.client("runtime").await;
    for sql in [
        "create table outlast.more (id int)",
        "create schema more",
        "alter table outlast.runs add column more int",
        "drop table outlast.runs",
        "truncate outlast.runs",
        "alter table outlast.runs disable row level security",
        "insert into outlast.migrations values (900, 'x', 'x', 0)",
    ] {
        assert_refused(&runtime, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_change_rows_alone_does_not_migrate_postgres_and_the_migrator_does() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    outlast_store::revert(&place.url, 25, false).await.unwrap();
    let refusal = Shop::at(&place.url_of("runtime")).refused(&["migrate", "up"], 4);
    assert!(refusal.contains("our role may not do that"), "{refusal}");
    assert!(refusal.contains("migrate with another role first"), "{refusal}");
    let refusal = outlast_store::open(&place.url_of("runtime"), OpenOptions::default()).await.err().unwrap();
    assert!(matches!(&refusal, StoreError::Schema(why) if why.contains("may not do that")), "{refusal:?}");

    Shop::at(&place.url_of("migrator")).ok(&["migrate", "up"]);
    let owner =
        "select relowner::regrole::text from pg_class where oid = 'outlast.failure_versions'::regclass";
    assert_eq!(place.texts(owner).await, [place.role("owner")]);
    // Programs go on with what is new; those who look wait until somebody has decided what they may see.
    let (runtime, reader) = (place.client("runtime").await, place.client("reader").await);
    let look = "select count(*) from outlast.failure_versions";
    runtime.batch_execute(look).await.unwrap();
    assert_refused(&reader, look).await;
    place.apply().await;
    reader.batch_execute(look).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_postgres_reads_all_tenants_and_changes_nothing() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    let shop = Shop::at(&place.url_of("reader"));
    for command in
        ["list runs", "list queues", "list schedules", "list nodes", "verify", "migrate status", "check"]
    {
        shop.ok(&command.split(' ').collect::<Vec<_>>());
    }
    fill(&place).await;
    let reader = place.client("reader").await;
    for relation in place.relations().await {
        let look = format!("select * from outlast.{relation}");
        if SECRET.contains(&&*relation) {
            assert_refused(&reader, &look).await;
            continue;
        }
        let (seen, there) =
            (reader.query(&look, &[]).await.unwrap(), place.admin.query(&look, &[]).await.unwrap());
        // The key by which the API signs stays out of sight.
        let hidden = usize::from(relation == "meta");
        assert!(
            !there.is_empty() && seen.len() + hidden == there.len(),
            "{relation}: {} of {}",
            seen.len(),
            there.len()
        );
    }
    for sql in [
        "delete from outlast.runs",
        "update outlast.kv set value = null",
        "create table outlast.more (id int)",
    ] {
        assert_refused(&reader, sql).await;
    }
    assert!(texts(&reader, "select value from outlast.meta where name = 'api_key'").await.is_empty());
}

#[tokio::test]
async fn somebody_of_a_tenant_sees_its_rows_of_postgres_and_no_others() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    fill(&place).await;
    let (acme, nobody) = (place.tenant("acme").await, place.tenant("nobody").await);
    place.admin.batch_execute(&format!("alter role {acme} set outlast.tenant = 'acme'")).await.unwrap();
    let acme = connect(&url_as(&place.url, &acme)).await;
    let nobody = connect(&url_as(&place.url, &nobody)).await;

    let has_invoker =
        place.texts("select current_setting('server_version_num')").await[0].parse::<u32>().unwrap()
            >= 150_000;
    let views = if has_invoker { &VIEWS_OF_TENANTS[..] } else { &[] };
    let mut expected: Vec<&str> = OF_TENANTS.iter().chain(views).copied().collect();
    expected.sort_unstable();
    // This shows a role what it has rights on.
    let walk =
        "select table_name::text from information_schema.tables where table_schema = 'outlast' order by 1";
    assert_eq!(texts(&acme, walk).await, expected);

    for relation in place.relations().await {
        let look = format!("select to_jsonb(t)::text from outlast.{relation} as t");
        if !expected.contains(&&*relation) {
            assert_refused(&acme, &look).await;
            continue;
        }
        let seen = texts(&acme, &look).await;
        assert!(matches!(&seen[..], [row] if is_of("acme", row)), "{relation}: {seen:?}");
        assert_eq!(texts(&nobody, &look).await, [""; 0], "{relation}, without a tenant");
        assert_eq!(place.texts(&look).await.len(), TENANTS.len(), "{relation} has a row of each");

        nobody.batch_execute("begin; set local outlast.tenant = 'globex'").await.unwrap();
        let seen = texts(&nobody, &look).await;
        assert!(matches!(&seen[..], [row] if is_of("globex", row)), "{relation}: {seen:?}");
        // What was set is empty from now on, and so is the tenant of runs that have none.
        nobody.batch_execute("commit").await.unwrap();
        assert_eq!(texts(&nobody, &look).await, [""; 0], "{relation}, behind the transaction");
    }
    for sql in [
        "delete from outlast.runs",
        "update outlast.kv set value = null",
        "create table outlast.more (id int)",
    ] {
        assert_refused(&acme, sql).await;
    }
}

#[tokio::test]
async fn every_table_of_postgres_has_its_grants_and_its_policies_however_often_they_are_given() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    // Of what a role lacks a right, and of what it has one.
    let split = async |role: &str, right: &str| {
        let mut split = (Vec::new(), Vec::new());
        for relation in place.relations().await {
            let role = place.role(role);
            let has = format!("select has_table_privilege('{role}', 'outlast.{relation}', '{right}')::text");
            match place.texts(&has).await[0] == "true" {
                true => split.1.push(relation),
                false => split.0.push(relation),
            }
        }
        split
    };
    let nothing: [&str; 0] = [];
    assert_eq!(split("runtime", "select").await.0, nothing);
    for right in ["insert", "update", "delete"] {
        let views = ["explained", "members", "migrations", "show_journal", "show_kv", "show_runs"];
        assert_eq!(split("runtime", right).await.0, views, "{right}");
    }
    assert_eq!(split("reader", "select").await.0, SECRET);
    for right in ["insert", "update", "delete", "truncate", "references", "trigger"] {
        assert_eq!(split("reader", right).await.1, nothing, "{right}");
        assert_eq!(split("tenant", right).await.1, nothing, "{right}");
    }

    // What names a tenant, or may be read by one, has a fence, through which programs and readers see everything.
    let policies = |role: &str| {
        let role = place.role(role);
        format!(
            "exists (select from pg_policy as p where p.polrelid = c.oid and '{role}'::regrole = any (p.polroles))"
        )
    };
    let fenceless = format!(
        "select c.relname::text from pg_class as c
          where c.relnamespace = 'outlast'::regnamespace and c.relkind in ('r', 'p')
            and (has_table_privilege('{}', c.oid, 'select')
                 or exists (select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'tenant'))
            and not (c.relrowsecurity and {} and {})",
        place.role("tenant"),
        policies("runtime"),
        policies("reader"),
    );
    assert_eq!(place.texts(&fenceless).await, nothing);

    let before = standing(&place).await;
    place.apply().await;
    assert_eq!(standing(&place).await, before, "twice is as good as once");
}

#[tokio::test]
async fn what_postgres_was_told_of_roles_can_be_taken_back() {
    if skipped() {
        return;
    }
    let world = World::open(StoreKind::Postgres, 1).await;
    let (url, prefix) = (world.url().to_owned(), prefix());
    let place = Place { admin: connect(&url).await, url, prefix, _world: world };
    let before = standing(&place).await;
    place.apply().await;
    assert_ne!(standing(&place).await, before);
    apply(&place.admin, &place.prefix, DROP).await.unwrap();
    assert_eq!(standing(&place).await, before);
    let left = format!("select rolname::text from pg_roles where rolname like '{}%'", place.prefix);
    assert_eq!(place.texts(&left).await, [""; 0]);
    apply(&place.admin, &place.prefix, DROP).await.unwrap();
}

#[tokio::test]
async fn a_role_that_postgres_would_show_empty_tables_is_named_and_nothing_is_changed() {
    if skipped() {
        return;
    }
    let world = World::open(StoreKind::Postgres, 1).await;
    let (url, prefix) = (world.url().to_owned(), prefix());
    let place = Place { admin: connect(&url).await, url, prefix, _world: world };
    let old = place.role("app");
    let grant =
        format!("create role {old} login; grant select, insert on all tables in schema outlast to {old}");
    place.admin.batch_execute(&grant).await.unwrap();
    let before = standing(&place).await;
    let refusal = apply(&place.admin, &place.prefix, ROLES).await.unwrap_err();
    assert!(refusal.as_db_error().unwrap().message().ends_with(&format!("any more: {old}")), "{refusal:?}");
    assert_eq!(standing(&place).await, before);

    place.admin.batch_execute(&format!("drop owned by {old}")).await.unwrap();
    place.apply().await;
    place.admin.batch_execute(&format!("grant {} to {old}", place.role("runtime"))).await.unwrap();
    place.apply().await;
    outlast_store::open(&url_as(&place.url, &old), OpenOptions::default()).await.unwrap();
}

#[tokio::test]
async fn whoever_owns_a_database_of_postgres_and_may_create_roles_needs_no_superuser() {
    if skipped() {
        return;
    }
    let database = TestDatabase::create("nothing_yet", async |_| Ok(())).await.unwrap();
    let (admin, prefix) = (connect(database.url()).await, prefix());
    let dba = format!("{prefix}_dba");
    let name = database.url().rsplit_once('/').unwrap().1;
    let make = format!("create role {dba} login createrole; alter database {name} owner to {dba}");
    admin.batch_execute(&make).await.unwrap();
    let client = connect(&url_as(database.url(), &dba)).await;
    apply(&client, &prefix, ROLES).await.unwrap();
    let migrator = url_as(database.url(), &format!("{prefix}_migrator"));
    assert!(outlast_store::migrate(&migrator, None).await.unwrap().is_complete());
    apply(&client, &prefix, ROLES).await.unwrap();
    let runtime = url_as(database.url(), &format!("{prefix}_runtime"));
    outlast_store::open(&runtime, OpenOptions::default()).await.unwrap();
    let fenced = "select relrowsecurity::text from pg_class where oid = 'outlast.runs'::regclass";
    assert_eq!(texts(&admin, fenced).await, ["true"]);
    apply(&client, &prefix, DROP).await.unwrap();
}

#[tokio::test]
async fn row_security_costs_programs_on_postgres_no_other_plan() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    let runtime = place.client("runtime").await;
    for sql in [
        "select * from outlast.runs where shard = 0 and id = '00000000-0000-0000-0000-000000000001'",
        "select r.id, j.body from outlast.runs as r join outlast.journal as j on j.shard = r.shard and j.run = r.id where r.shard = 0 and r.key = 'a'",
        "select id from outlast.agenda where shard = 0 and queue = any('{a,b}') and due_at <= 7 order by priority, due_at, id limit 5",
        "update outlast.agenda as a set epoch = epoch + 1 from outlast.runs as r where a.shard = r.shard and a.id = r.id and r.tenant = 'acme'",
        "delete from outlast.kv where shard = 0 and tenant = 'acme' and space = 's' and key like 'a%'",
    ] {
        let plan = format!("explain {sql}");
        assert_eq!(texts(&runtime, &plan).await, place.texts(&plan).await, "{sql}");
    }
}

/// All that roles and rights change: owners, rights, row security, policies, and how views look.
async fn standing(place: &Place) -> Vec<String> {
    let sql = "select format('%s %s %s %s %s', c.relname, c.relowner::regrole, c.relacl, c.relrowsecurity, c.reloptions)
                 from pg_class as c where c.relnamespace = 'outlast'::regnamespace and c.relkind in ('r', 'p', 'v')
                union all select format('%s %s %s %s %s %s', tablename, policyname, roles, cmd, qual, with_check)
                            from pg_policies where schemaname = 'outlast'
                union all select format('%s %s', nspowner::regrole, nspacl) from pg_namespace where nspname = 'outlast'
                union all select format('%s', defaclacl) from pg_default_acl
                order by 1";
    // Without rights of anybody else, those of the owner are written down or not: they are the same.
    let own = |line: String| match line.contains("{outlast=") && line.matches('=').count() == 1 {
        true => {
            line.split('{').next().unwrap_or_default().to_owned()
                + line.rsplit('}').next().unwrap_or_default()
        }
        false => line,
    };
    place.texts(sql).await.into_iter().map(own).collect()
}

const TENANTS: [&str; 3] = ["acme", "globex", ""];

/// The run of a tenant.
fn run_of(tenant: &str) -> String {
    let n = TENANTS.iter().position(|name| *name == tenant).unwrap();
    format!("0000000{n}-1111-4111-8111-111111111111")
}

fn is_of(tenant: &str, row: &str) -> bool {
    let is = |name: &str| row.contains(&run_of(name)) || (!name.is_empty() && row.contains(name));
    TENANTS.iter().all(|name| is(name) == (*name == tenant))
}

/// A row of each tenant in every table, made of what a column's type allows: also in tables that come later.
async fn fill(place: &Place) {
    // Rows that others point to come first.
    let tables = "select c.relname::text from pg_class as c
                   where c.relnamespace = 'outlast'::regnamespace and c.relkind = 'r' and c.relname not in ('meta', 'migrations')
                   order by exists (select from pg_constraint as k where k.conrelid = c.oid and k.contype = 'f')";
    for table in place.texts(tables).await {
        for (n, tenant) in TENANTS.iter().enumerate() {
            let run = run_of(tenant);
            let columns = format!(
                "select format('%I', column_name) || ' ' ||
                        case data_type when 'uuid' then '''{run}''' when 'text' then '''{tenant}'''
                             when 'bytea' then '''{{}}''' else '{n}' end
                   from information_schema.columns
                  where table_schema = 'outlast' and table_name = '{table}'
                    and (column_name = 'tenant' or data_type = 'bytea' or is_nullable = 'NO' and column_default is null)"
            );
            let columns = place.texts(&columns).await;
            let (names, values): (Vec<_>, Vec<_>) =
                columns.iter().map(|column| column.split_once(' ').unwrap()).unzip();
            let put =
                format!("insert into outlast.{table} ({}) values ({})", names.join(", "), values.join(", "));
            place.admin.batch_execute(&put).await.unwrap_or_else(|error| panic!("{error:?}: {put}"));
        }
    }
    place.admin.batch_execute("insert into outlast.meta values ('api_key', 'secret')").await.unwrap();
}

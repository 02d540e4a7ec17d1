-- Roles for PostgreSQL 13 to 18, and row security as a second fence behind that of the API. docs/operate.md says what each may do.
--
--     psql --set ON_ERROR_STOP=1 --dbname orders --file roles.sql
--
-- By a superuser, or by whoever owns the database and may create roles. Before the first migration or behind it, and again after
-- each one: what it finds in the schema it brings into order, all of it or nothing, and twice is as good as once. The names begin
-- with `outlast_`, or with what `outlast.roles` says (PGOPTIONS='-c outlast.roles=shop'), where databases of one cluster are kept
-- apart. Nobody gets a password here. roles-drop.sql takes it all back.

do $roles$
declare
    prefix constant text := coalesce(nullif(current_setting('outlast.roles', true), ''), 'outlast');
    owner_role constant text := prefix || '_owner';
    migrator_role constant text := prefix || '_migrator';
    runtime_role constant text := prefix || '_runtime';
    reader_role constant text := prefix || '_reader';
    tenant_role constant text := prefix || '_tenant';
    -- A setting that was undone is empty and not missing, and rows of no tenant have an empty one.
    is_theirs constant text := $$tenant = nullif(current_setting('outlast.tenant', true), '')$$;
    -- What belongs to a run, whose tenant decides, and the column that names it.
    of_runs constant jsonb := '{"agenda": "id", "doing": "run", "inbox": "run", "journal": "run", "logs": "run",
                                "promises": "run", "results": "run", "tags": "run"}';
    -- Hashes of secrets, and answers that may have had one in them: for nobody who only looks.
    secret constant text[] := array['replies', 'sessions', 'tokens'];
    -- Who did what, from where: for tenants no more than the API shows to those who are no admins.
    of_admins constant text[] := array['audit'];
    -- Views whose tables tenants may read.
    of_tenants constant text[] := array['show_journal', 'show_kv', 'show_runs'];
    may_become constant text := case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end;
    has_invoker constant boolean := current_setting('server_version_num')::int >= 150000;
    part record;
    policy record;
    stranger text;
    condition text;
begin
    -- That of migrations: none begins meanwhile.
    perform pg_advisory_xact_lock(31375338055398260);
    -- Rather refused than in everybody's way.
    perform set_config('lock_timeout', '5s', true);
    perform set_config('client_min_messages', 'warning', true);

    for part in select * from (values (owner_role, 'nologin'), (migrator_role, 'login'), (runtime_role, 'login'),
                                      (reader_role, 'login'), (tenant_role, 'nologin')) as r(name, login)
    loop
        if not exists (select from pg_roles where rolname = part.name) then
            execute format('create role %I %s', part.name, part.login);
        end if;
    end loop;
    if not pg_has_role(owner_role, may_become) then
        execute format('grant %I to %I', owner_role, current_user);
    end if;
    -- Whatever the migrator makes is the owner's.
    if not pg_has_role(migrator_role, owner_role, may_become) then
        execute format('grant %I to %I', owner_role, migrator_role);
    end if;
    execute format('alter role %I in database %I set role to %L', migrator_role, current_database(), owner_role);

    if to_regnamespace('outlast') is null then
        execute format('create schema outlast authorization %I', owner_role);
    end if;
    -- With row security, whoever was given tables by hand would find them empty, and not be told.
    select string_agg(distinct a.grantee::regrole::text, ', ') into stranger
      from pg_class as c, aclexplode(c.relacl) as a
     where c.relnamespace = 'outlast'::regnamespace and a.grantee not in (0, c.relowner)
       and not pg_has_role(a.grantee, runtime_role, 'usage') and not pg_has_role(a.grantee, reader_role, 'usage')
       and not pg_has_role(a.grantee, tenant_role, 'usage');
    if stranger is not null then
        raise exception 'roles with rights of their own on tables of the schema outlast would see no rows any more: %', stranger
            using hint = format('Grant them %s or %s, or revoke what they have; then run this again.', runtime_role, reader_role);
    end if;

    if (select nspowner::regrole <> owner_role::regrole from pg_namespace where nspname = 'outlast') then
        execute format('alter schema outlast owner to %I', owner_role);
    end if;
    for part in select c.oid::regclass as name from pg_class as c
                 where c.relnamespace = 'outlast'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
                   and c.relowner <> owner_role::regrole
    loop
        execute format('alter table %s owner to %I', part.name, owner_role);
    end loop;

    execute format('revoke all on schema outlast from public, %I, %I, %I', runtime_role, reader_role, tenant_role);
    execute format('grant usage on schema outlast to %I, %I, %I', runtime_role, reader_role, tenant_role);
    execute format('revoke all on all tables in schema outlast from public, %I, %I, %I', runtime_role, reader_role, tenant_role);
    -- So that programs go on between a migration and the next time this is run; those who look wait for it.
    execute format('alter default privileges for role %I in schema outlast grant select, insert, update, delete on tables to %I',
                   owner_role, runtime_role);

    for part in select c.oid::regclass as name, c.relname::text as plain, c.relkind = 'v' as is_view,
                       exists (select from pg_attribute as t where t.attrelid = c.oid and t.attname = 'tenant' and not t.attisdropped)
                           as has_tenant
                  from pg_class as c where c.relnamespace = 'outlast'::regnamespace and c.relkind in ('r', 'p', 'v')
                 order by c.relname
    loop
        if part.plain = 'migrations' or part.is_view then
            execute format('grant select on %s to %I', part.name, runtime_role);
        else
            execute format('grant select, insert, update, delete on %s to %I', part.name, runtime_role);
        end if;
        if part.plain <> all (secret) then
            execute format('grant select on %s to %I', part.name, reader_role);
        end if;

        if part.is_view then
            -- Before version 15 a view sees all that its owner does.
            if has_invoker then
                execute format('alter view %s set (security_invoker = true)', part.name);
                if part.plain = any (of_tenants) then
                    execute format('grant select on %s to %I', part.name, tenant_role);
                end if;
            end if;
            continue;
        end if;

        for policy in select polname from pg_policy where polrelid = part.name loop
            execute format('drop policy %I on %s', policy.polname, part.name);
        end loop;
        condition := case when part.has_tenant then is_theirs
                          when of_runs ? part.plain then format(
                              'exists (select from outlast.runs as r where r.shard = %I.shard and r.id = %I.%I and r.%s)',
                              part.plain, part.plain, of_runs ->> part.plain, is_theirs) end;
        if condition is null and part.plain <> 'meta' then
            continue;
        end if;
        execute format('alter table %s enable row level security', part.name);
        -- The planner drops what is always true.
        execute format('create policy runtime on %s to %I using (true) with check (true)', part.name, runtime_role);
        -- The key by which the API signs stands there too.
        execute format('create policy reader on %s for select to %I using (%s)', part.name, reader_role,
                       case part.plain when 'meta' then $$name in ('serves', 'shards')$$ else 'true' end);
        if condition is not null and part.plain <> all (secret || of_admins) then
            execute format('create policy tenant on %s for select to %I using (%s)', part.name, tenant_role, condition);
            execute format('grant select on %s to %I', part.name, tenant_role);
        end if;
    end loop;
end
$roles$;

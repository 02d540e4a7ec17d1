-- Takes back what roles.sql did, as those who may do that: row security, the rights of its roles, and the roles, unless other
-- databases need them. What the owner's role has becomes that of whoever runs this.
--
--     psql --set ON_ERROR_STOP=1 --dbname orders --file roles-drop.sql

do $roles$
declare
    prefix constant text := coalesce(nullif(current_setting('outlast.roles', true), ''), 'outlast');
    part record;
begin
    perform pg_advisory_xact_lock(31375338055398260);
    perform set_config('lock_timeout', '5s', true);
    for part in select c.oid::regclass as name from pg_class as c
                 where c.relnamespace = to_regnamespace('outlast') and c.relrowsecurity
    loop
        execute format('alter table %s disable row level security', part.name);
    end loop;
    for part in select c.oid::regclass as name from pg_class as c
                 where c.relnamespace = to_regnamespace('outlast') and c.relkind = 'v' and c.reloptions is not null
    loop
        execute format('alter view %s reset (security_invoker)', part.name);
    end loop;

    for part in select r.name from unnest(array['_tenant', '_reader', '_runtime', '_migrator', '_owner']) as suffix,
                       lateral (select prefix || suffix) as r(name)
                 where exists (select from pg_roles where rolname = r.name)
    loop
        if not pg_has_role(part.name, 'usage') then
            execute format('grant %I to %I', part.name, current_user);
        end if;
        execute format('reassign owned by %I to current_user', part.name);
        -- With them go the policies that are for them alone.
        execute format('drop owned by %I', part.name);
        begin
            execute format('drop role %I', part.name);
        exception when dependent_objects_still_exist then
            raise notice '% stays: another database needs it', part.name;
        end;
    end loop;
end
$roles$;

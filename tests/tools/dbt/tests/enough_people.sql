{{ config(fail_calc="sum(case when n < 100 then 1 else 0 end)") }}
select count(*) as n from {{ source('study', 'people') }}

select city, count(*) as n from {{ source('study', 'people') }} group by city

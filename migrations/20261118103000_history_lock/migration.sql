-- The lock between moves into history and those who bring jobs back from it.
alter type lock_name add value if not exists 'history';

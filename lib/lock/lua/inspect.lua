return add(KEYS[1]) and reply or redis.error_reply('WRONGTYPE the key holds no lock')

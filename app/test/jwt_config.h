/* jwt_config.h - a configuration in which tokens have their default settings. */
#ifndef APP_TEST_JWT_CONFIG_H
#define APP_TEST_JWT_CONFIG_H

#include "app/core/config.h"

static inline struct config jwt_config(const char *secret, const char *keys)
{
    return (struct config){.jwt_secret = secret,
                           .jwt_public_key = "",
                           .jwt_private_key = "",
                           .jwt_keys = keys,
                           .jwt_issuer = "",
                           .jwt_audience = "",
                           .jwt_jwks = "",
                           .jwt_user_claim = "sub",
                           .jwt_role_claim = "role"};
}

#endif

import { randomBytes } from 'node:crypto'

/** Prefixes of ids, which tell their kind. */
export type IdPrefix =
  | 'proj_'
  | 'dep_'
  | 'lsrc_'
  | 'cat_'
  | 'tag_'
  | 'aud_'
  | 'msg_'
  | 'term_'
  | 'ntf_'
  | 'ses_'
  | 'plan_'
  | 'tok_'
  | 'node_'
  | 'enr_'
  | 'ro_'
  | 'rel_'

/** Creates ids and secrets. It is passed in so that tests can choose them. */
export interface Ids {
  /** Returns the prefix and 16 random lowercase characters. */
  id(prefix: IdPrefix): string
  /** Returns 32 random bytes in base64url. */
  token(): string
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
const idLength = 16

/** Creates ids and secrets from the system's random source. */
export const randomIds: Ids = {
  id: prefix => prefix + Array.from(randomBytes(idLength), byte => alphabet[byte & 31]).join(''),
  token: () => randomBytes(32).toString('base64url')
}

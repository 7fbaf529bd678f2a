import { randomBytes } from 'node:crypto'

export type IdPrefix = 'proj_' | 'dep_' | 'lsrc_' | 'cat_' | 'tag_' | 'aud_' | 'msg_' | 'term_' | 'ntf_' | 'ses_'

/** Ids and secrets, handed in so that tests can choose them. */
export interface Ids {
  /** The prefix and 16 lowercase characters of randomness. */
  id(prefix: IdPrefix): string
  /** 32 random bytes, base64url. */
  token(): string
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
const idLength = 16

export const randomIds: Ids = {
  id: prefix => prefix + Array.from(randomBytes(idLength), byte => alphabet[byte & 31]).join(''),
  token: () => randomBytes(32).toString('base64url')
}

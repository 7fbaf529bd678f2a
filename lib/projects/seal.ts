/*
 * Encryption of secrets in the database: AES-256-GCM (NIST SP 800-38D) with a random nonce, as
 *
 *   v1.<id of the key>.<nonce, 12 bytes>.<tag, 16 bytes>.<ciphertext>      each of the last three in base64url
 *
 * The project and the name are additional data: a row copied to another project or name cannot be decrypted.
 */

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Check, GivenPolicy } from '../model/policy.js'
import type { Reader } from '../store/database.js'
import { listProjects, listSecrets } from '../store/tables/projects.js'
import { hasCode, reasonOf, Refusal } from '../base/errors.js'
import { replaceFile } from '../base/files.js'

const version = 'v1'
const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** Size of a key in bytes. */
export const keyBytes = 32

/** The project and name that a sealed value belongs to. */
export interface SealedPlace {
  projectId: string
  name: string
}

/** Encrypts a value. Two results for the same value differ. */
export function seal(key: Buffer, place: SealedPlace, value: string): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(additionalData(place))
  const sealed = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
  return [version, keyIdOf(key), ...[nonce, cipher.getAuthTag(), sealed].map(part => part.toString('base64url'))].join(
    '.'
  )
}

/** Decrypts a value. Returns null if the key or the place is wrong, or the text is damaged. */
export function unseal(key: Buffer, place: SealedPlace, text: string): string | null {
  const [found, , ...parts] = text.split('.')
  if (found !== version || parts.length !== 3) return null
  const [nonce, tag, sealed] = parts.map(part => Buffer.from(part, 'base64url')) as [Buffer, Buffer, Buffer]
  if (nonce.length !== nonceBytes || tag.length !== tagBytes) return null
  try {
    const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes })
    decipher.setAAD(additionalData(place)).setAuthTag(tag)
    return Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8')
  } catch {
    return null
  }
}

/** Returns the size of a sealed value in bytes, before encoding. */
export function sealedBytes(text: string): number {
  return Buffer.from(text.split('.')[4] ?? '', 'base64url').length
}

/** Returns the id of the key that sealed a value: the start of a digest, which reveals nothing about the key. */
export function keyIdOfSealed(text: string): string {
  return text.split('.')[1] ?? ''
}

/** Returns the id of a key: eight hexadecimal digits that distinguish keys. */
export function keyIdOf(key: Buffer): string {
  return createHash('sha256').update('svc variables key\0').update(key).digest('hex').slice(0, 8)
}

function additionalData({ projectId, name }: SealedPlace): Buffer {
  return Buffer.from(`svc variable\0${projectId}\0${name}`)
}

/** The prefix of a sealed header value in a stored policy. */
export const sealedPrefix = 'sealed:'

type HttpCheck = Extract<Check, { http: string }>

/** A header of a check, with its place. */
export interface Header {
  name: string
  value: string
  check: HttpCheck
  /** The index of the check in its gate. */
  index: number
}

/** Returns the encrypted header values of all projects: a new key would lose them. */
export function sealedHeaders(db: Reader): Array<{ projectId: string; name: string; value: string }> {
  return listProjects(db).flatMap(({ id, policy }) =>
    headersOf(policy)
      .filter(({ value }) => value.startsWith(sealedPrefix))
      .map(({ name, value }) => ({ projectId: id, name, value }))
  )
}

/** Returns the headers of the checks of a policy. */
export function headersOf({ gate }: GivenPolicy): Header[] {
  return (gate?.after ?? []).flatMap((check, index) =>
    'http' in check ? Object.entries(check.header ?? {}).map(([name, value]) => ({ name, value, check, index })) : []
  )
}

/** A text that the key of the variables encrypts, and that is still needed. */
export interface SealedText {
  place: SealedPlace
  sealed: string
  /** Its name for users: `project: NAME`. */
  name: string
}

/** A column with encrypted texts. */
interface SealedColumn {
  needed(db: Reader): SealedText[]
  /** What to do if the key is lost. */
  cure: string
}

/** A sealed header value opens only for its project and its header. */
export function headerPlace(projectId: string, name: string): SealedPlace {
  return { projectId, name: `header ${name.toLowerCase()}` }
}

/** What is encrypted for a token or a deployment opens only for it. */
export function ownPlace(id: string, what: 'second factor' | 'rollout'): SealedPlace {
  return { projectId: id, name: what }
}

/**
 * The columns with what the key of the variables encrypts, with what is needed of it. What was sent for a rollout is
 * needed until the rollout has ended, and for a queued deployment until it begins.
 */
export const sealedPlaces = {
  'variables.value': {
    needed: db =>
      listSecrets(db)
        .filter(({ value }) => value !== '')
        .map(({ projectId, name, value }) => {
          return { place: { projectId, name }, sealed: value, name: `${projectId}: ${name}` }
        }),
    cure: 'set the secret variables again'
  },
  'projects.policy': {
    needed: db =>
      sealedHeaders(db).map(({ projectId, name, value }) => ({
        place: headerPlace(projectId, name),
        sealed: value.slice(sealedPrefix.length),
        name: `${projectId}: header ${name}`
      })),
    cure: 'set the headers of checks again'
  },
  'secondFactors.secret': {
    needed: db =>
      rowsOf(
        db,
        `SELECT tokenId AS id, secret AS sealed, 'second factor of ' || name AS name
         FROM secondFactors JOIN tokens ON tokens.id = tokenId WHERE confirmedAt IS NOT NULL`
      ).map(row => textOf(row, 'second factor')),
    cure: 'remove the second factors with "svc admin reset-second-factor"'
  },
  'rollouts.sealed': {
    needed: db =>
      rowsOf(
        db,
        `SELECT deployId AS id, sealed, projectId || ': rollout ' || id AS name
         FROM rollouts WHERE sealed IS NOT NULL AND endedAt IS NULL`
      ).map(row => textOf(row, 'rollout')),
    cure: 'push the releases of the unfinished rollouts again'
  },
  'queuedReleases.sealed': {
    needed: db =>
      rowsOf(
        db,
        `SELECT deployId AS id, sealed, projectId || ': queued deployment ' || deployId AS name
         FROM queuedReleases JOIN deployments ON id = deployId WHERE sealed IS NOT NULL AND status = 'queued'`
      ).map(row => textOf(row, 'rollout')),
    cure: 'cancel the queued deployments and push them again'
  }
} satisfies Record<string, SealedColumn>

type Row = Record<'id' | 'sealed' | 'name', string>

function rowsOf(db: Reader, sql: string): Row[] {
  return db.all(sql).map(({ id, sealed, name }) => ({ id: String(id), sealed: String(sealed), name: String(name) }))
}

function textOf({ id, sealed, name }: Row, what: 'second factor' | 'rollout'): SealedText {
  return { place: ownPlace(id, what), sealed, name }
}

const columns: ReadonlyArray<[string, SealedColumn]> = Object.entries(sealedPlaces)

/** Returns everything that is encrypted with the key of the variables and needed. */
export function neededTexts(db: Reader): SealedText[] {
  return columns.flatMap(([, { needed }]) => needed(db))
}

/** Returns what to do about everything that is encrypted with a key that is lost. */
export function curesOfLostKey(db: Reader): string[] {
  return columns.flatMap(([, { needed, cure }]) => (needed(db).length > 0 ? [cure] : []))
}

/**
 * Returns whether something stored is encrypted with the key of the variables, so that a new key would hide its loss.
 * `besides`: a column that does not count.
 */
export function needsStoredKey(db: Reader, besides?: keyof typeof sealedPlaces): boolean {
  return columns.some(([column, { needed }]) => column !== besides && needed(db).length > 0)
}

/*
 * The key that encrypts the secrets of all projects: `variables.key` in the data directory, 64 hexadecimal digits, mode
 * 0600. It is created when the first secret is stored, and backups contain it. Without it, secrets cannot be decrypted.
 */

const keyMode = 0o600

/** The result of reading the file: a key, or why there is none. */
export type FoundKey = { key: Buffer } | { key: null; isMissing: boolean; why: string }

/** The key file of a data directory. */
export interface VariablesKey {
  path: string
  /** Reads the file. It is read each time, because an operator may restore it while the server runs. */
  find(): Promise<FoundKey>
  /** Writes a new key and syncs it to disk. If another key was created in the meantime, that one is kept. */
  create(): Promise<Buffer>
}

/** Creates the access to the key in the file at `path`. */
export function createVariablesKey(path: string): VariablesKey {
  let creating: Promise<Buffer> | null = null

  async function find(): Promise<FoundKey> {
    try {
      const key = parseVariablesKey(await readFile(path, 'utf8'))
      return key === null
        ? { key, isMissing: false, why: 'it does not contain a key of 64 hexadecimal digits' }
        : { key }
    } catch (error) {
      const isMissing = hasCode(error, 'ENOENT')
      return {
        key: null,
        isMissing,
        why: isMissing ? 'the file is missing' : `it cannot be read: ${reasonOf(error)}`
      }
    }
  }

  async function write(): Promise<Buffer> {
    const found = await find()
    if (found.key !== null) return found.key
    if (!found.isMissing) throw unusableKey(path, found.why)
    const key = randomBytes(keyBytes)
    await replaceFile(path, `${key.toString('hex')}\n`, keyMode)
    return key
  }

  return {
    path,
    find,
    create() {
      creating ??= write().finally(() => (creating = null))
      return creating
    }
  }
}

/** Returns the 503 if secrets exist and their key cannot be used. `cures`: what to do about each kind of secrets. */
export function unusableKey(path: string, why: string, cures: readonly string[] = []): Refusal {
  const without =
    cures.length === 0
      ? 'remove that file if it exists, and begin again: svc then makes a new key'
      : cures.join(', and ')
  const cure = `Restore "${path}" from a backup, or ${without}`
  return new Refusal('unavailable', 'variables_key', `Cannot use the key of the secrets: ${why}. ${cure}`)
}

/** Returns the key that a text contains; null if it is not one. */
export function parseVariablesKey(text: string): Buffer | null {
  const digits = text.trim()
  return /^[0-9a-f]{64}$/i.test(digits) ? Buffer.from(digits, 'hex') : null
}

/*
 * Encryption of secrets in the database: AES-256-GCM (NIST SP 800-38D) with a random nonce, as
 *
 *   v1.<id of the key>.<nonce, 12 bytes>.<tag, 16 bytes>.<ciphertext>      each of the last three in base64url
 *
 * The project and the name are additional data: a row copied to another project or name cannot be decrypted.
 */

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Check, GivenPolicy, PolicyChanges } from '../model/policy.js'
import type { Reader, Store } from '../core/store/database.js'
import { listProjects, listSecrets, policiesWith, updateProject } from '../core/store/tables/projects.js'
import { hasCode, invalid, reasonOf, Refusal } from '../base/errors.js'
import { replaceFile } from '../base/files.js'
import { hiddenValue } from '../model/readers.js'

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
const sealedPrefix = 'sealed:'

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
  return policiesWith(db, `"${sealedPrefix}`).flatMap(({ id, policy }) =>
    headersOf(policy)
      .filter(({ value }) => value.startsWith(sealedPrefix))
      .map(({ name, value }) => ({ projectId: id, name, value }))
  )
}

/** Returns the headers of the checks of a policy. */
function headersOf({ gate }: GivenPolicy): Header[] {
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
function headerPlace(projectId: string, name: string): SealedPlace {
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
export type VariablesKey = ReturnType<typeof createVariablesKey>

/** Creates the access to the key in the file at `path`. */
export function createVariablesKey(path: string) {
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
    /** Reads the file. It is read each time, because an operator may restore it while the server runs. */
    find,

    /** Writes a new key and syncs it to disk. If another key was created in the meantime, that one is kept. */
    create(): Promise<Buffer> {
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

/*
 * The header values of checks are secrets, because they are passwords and tokens of what is checked. In a stored policy
 * each is sealed with the key of the variables, behind a prefix; a value without the prefix is one that an earlier
 * version stored, or `***` of a package, which stands for a value that is not known here. A run and a release for nodes open
 * the policy. Nobody reads them back: answers show `***` (model/readers.ts), and a `***`
 * in a request keeps the stored value.
 */

/** Seals the header values of a policy. `before` is the stored policy, whose values `***` keeps. */
export type SealPolicy = <P extends GivenPolicy>(policy: P, place: { projectId: string; before: PolicyChanges }) => P

export type CheckHeaders = ReturnType<typeof createCheckHeaders>

/** Returns an encrypted header value as it was given; null if this key cannot decrypt it. */
function openedHeader(
  { projectId, name, value }: { projectId: string; name: string; value: string },
  key: Buffer | null
): string | null {
  return key === null ? null : unseal(key, headerPlace(projectId, name), value.slice(sealedPrefix.length))
}

/** Returns why a header value cannot be decrypted. */
function whyHeaderIsClosed(found: FoundKey): string {
  return found.key === null ? found.why : 'it was encrypted with another key, or for another project'
}

interface Needs {
  store: Store
  key: VariablesKey
  log(message: string, error: unknown): void
}

/** Creates the access to the header values of checks. */
export function createCheckHeaders({ store, key, log }: Needs) {
  async function keyToSeal(): Promise<Buffer> {
    const found = await key.find()
    if (found.key !== null) return found.key
    if (!found.isMissing || needsStoredKey(store)) throw unusableKey(key.path, found.why, curesOfLostKey(store))
    return key.create()
  }

  /**
   * Returns the function that seals the values of these policies within a transaction. Refuses 503 `variables_key`. The
   * function refuses a `***` without a stored value (400), unless `keepsUnknown`: a package does not contain the values.
   */
  async function sealer(
    policies: ReadonlyArray<GivenPolicy | undefined>,
    { keepsUnknown = false }: { keepsUnknown?: boolean } = {}
  ): Promise<SealPolicy> {
    const given = policies.flatMap(policy => headersOf(policy ?? {}))
    const found = given.some(({ value }) => value !== hiddenValue) ? await keyToSeal() : null
    return (policy, { projectId, before }) =>
      withValues(policy, header => {
        if (header.value === hiddenValue) {
          const kept = keptValue(before, header)
          if (kept !== null || keepsUnknown) return kept ?? hiddenValue
          const field = `policy.gate.after[${header.index}].header.${header.name}`
          throw invalid(field, `"${field}" is "${hiddenValue}", but no value of it is stored: set the value`)
        }
        return sealedPrefix + seal(found as Buffer, headerPlace(projectId, header.name), header.value)
      })
  }

  /** Returns a stored policy with the header values. Refuses 503 `variables_key`. */
  async function open<P extends PolicyChanges>(projectId: string, policy: P): Promise<P> {
    if (headersOf(policy).length === 0) return policy
    const found = await key.find()
    return withValues(policy, header => openedValue(projectId, header, found))
  }

  function openedValue(projectId: string, header: Header, found: FoundKey): string {
    const { name, value } = header
    if (value === hiddenValue) {
      const why = 'it has no value yet, because import packages contain no secret values'
      throw cannotOpen(`${why}. Set it in the policy of the project`, name)
    }
    if (!value.startsWith(sealedPrefix)) return value
    const opened = openedHeader({ projectId, name, value }, found.key)
    if (opened !== null) return opened
    throw cannotOpen(`${whyHeaderIsClosed(found)}. Restore "${key.path}" from a backup, or set the header again`, name)
  }

  /** Seals the values that an earlier version stored as they were. If that fails, the next start tries it again. */
  async function sealStored(): Promise<void> {
    await sealPlain().catch((error: unknown) => log('Cannot encrypt the headers of checks', error))
  }

  async function sealPlain(): Promise<void> {
    const isPlain = ({ value }: Header): boolean => !value.startsWith(sealedPrefix) && value !== hiddenValue
    const found = listProjects(store).filter(({ policy }) => headersOf(policy).some(isPlain))
    if (found.length === 0) return
    const keyOfAll = await keyToSeal()
    await store.write(tx => {
      for (const { id, policy } of listProjects(tx)) {
        if (!headersOf(policy).some(isPlain)) continue
        const sealed = withValues(policy, header =>
          isPlain(header) ? sealedPrefix + seal(keyOfAll, headerPlace(id, header.name), header.value) : header.value
        )
        updateProject(tx, id, { policy: sealed })
      }
    })
  }

  return { sealer, open, sealStored }
}

function cannotOpen(why: string, name: string): Refusal {
  return new Refusal('unavailable', 'variables_key', `Cannot read the header "${name}" of a check: ${why}`)
}

/** Returns a policy with other header values. */
function withValues<P extends GivenPolicy>(policy: P, valueOf: (header: Header) => string): P {
  const { gate } = policy
  if (!gate || headersOf(policy).length === 0) return policy
  const after = gate.after.map((check, index): Check => {
    if (!('http' in check) || check.header === undefined) return check
    const values = Object.entries(check.header).map(([name, value]) => [name, valueOf({ name, value, check, index })])
    return { ...check, header: Object.fromEntries(values) }
  })
  return { ...policy, gate: { ...gate, after } }
}

/**
 * Returns the stored value that a `***` stands for: that of the same check, or of the one at the same place if its address
 * has changed; null if there is none.
 */
function keptValue(before: PolicyChanges, { name, check, index }: Header): string | null {
  const isSame = (one: Header): boolean => one.name.toLowerCase() === name.toLowerCase()
  const stored = headersOf(before).filter(isSame)
  const byAddress = stored.filter(one => one.check.http === check.http)
  const found = byAddress.find(one => one.index === index) ?? byAddress[0] ?? stored.find(one => one.index === index)
  return found === undefined || found.value === hiddenValue ? null : found.value
}

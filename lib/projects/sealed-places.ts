import type { Check, GivenPolicy } from '../model/policy.js'
import type { Reader } from '../store/database.js'
import { listProjects, listSecrets } from '../store/tables/projects.js'
import type { SealedPlace } from './seal.js'

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

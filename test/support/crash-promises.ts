import type { CrashClient } from './crash-client.js'
import type { CrashPlaces } from './crash-needs.js'
import type { Model } from './crash-model.js'
import type { Tree } from './crash-site.js'

/** The invariants of a crash run. */
export const invariants = {
  acknowledged: 'no acknowledged write is lost',
  target: 'every target equals exactly one archive',
  record: 'every record is true to its target',
  stray: 'no stray file is left after the next start',
  process: 'no process is left that nobody wanted',
  health: 'health reports the end of the recovery',
  answer: 'a server that runs answers, and does not fail',
  start: 'every start succeeds'
}

export type Invariant = keyof typeof invariants
export type Complain = (invariant: Invariant, sentence: string) => void

export interface CheckNeeds {
  client: CrashClient
  model: Model
  places: CrashPlaces
  /** Trees of the targets, read as soon as the server is healthy. */
  trees: ReadonlyMap<string, Tree>
  serverPid: number
  /** Processes that worked on targets when the server was killed. */
  helpers: readonly number[]
  /** Deployments whose list of files stays without a record. */
  lost: ReadonlySet<string>
  /** Whether outputs may be incomplete because the disk was full. */
  isDiskSmall: boolean
  complain: Complain
}

/** Reads JSON from the API with the admin token. Throws if the request fails. */
export async function get<T>({ client, model }: Pick<CheckNeeds, 'client' | 'model'>, path: string): Promise<T> {
  const answer = await client.call('GET', path, model.adminToken.settled())
  if (answer?.status !== 200)
    throw new Error(`GET ${path}: ${answer?.status ?? 'no answer'} ${answer?.text.slice(0, 200) ?? ''}`)
  return answer.body as T
}

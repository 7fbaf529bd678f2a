/*
 * The archives of deployments on the hubs of a cluster. Archives are not in etcd: a deployment is accepted when its archive is
 * on two hubs. The leader asks another hub, which fetches the archive and checks its SHA-256. In the background every hub
 * fetches what it lacks, so that any hub can serve downloads and lead rollouts, and removes what is no longer kept.
 */

import { link, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { countOf } from '../base/text.js'
import { type Ids, sha256OfFile, namedById } from '../base/digests.js'
import { reasonOf, Refusal } from '../base/errors.js'
import { makeDirectory, syncDirectory, syncPath } from '../base/files.js'
import type { HubClient } from './forwarded.js'
import type { ListedHub } from './hub-list.js'
import type { ReplicatedStore } from './replicated-store.js'
import { copiesOf, dropCopies, dropCopiesOf, putCopy } from '../core/store/tables/fleet.js'

/** An archive, as one hub tells another. */
export interface ArchiveFacts {
  deployId: string
  sha256: string
  bytes: number
}

export interface ArchivesNeeds {
  store: Pick<ReplicatedStore, 'all' | 'get' | 'hubs' | 'role' | 'write'>
  /** The name and URL of this hub. */
  hub: { name: string; url: string }
  client: HubClient
  home: { deployments: string; tmp: string }
  ids: Pick<Ids, 'token'>
  log(message: string, error?: unknown): void
}

/** A hub that was not seen for this long is not asked. */
const absentMs = 60_000
/** Maximum size of an output that is fetched: that of four scripts (deploy/output/output.ts). */
const maxOutputBytes = 4 * 1024 ** 3
/** Maximum number of attempts to fetch one archive. Each continues where the last one ended. */
const maxAttempts = 3
const filePattern = namedById('dep_', 'zip')
/** A file without a record that is younger than this belongs to a deployment that is being accepted. */
const arrivingMs = 60 * 60_000

export class Archives {
  readonly #needs: ArchivesNeeds
  /** Deployments whose files no hub had. They are asked for again after the next start. */
  readonly #absent = new Set<string>()
  readonly #fetching = new Map<string, Promise<void>>()

  constructor(needs: ArchivesNeeds) {
    this.#needs = needs
  }

  /**
   * Brings an archive of this hub to another one. Resolves with the hubs that have it. Refuses 503 `no_second_copy`. In a
   * cluster of one hub there is one copy.
   */
  async keep(facts: ArchiveFacts, signal: AbortSignal): Promise<string[]> {
    const { hub, client } = this.#needs
    const all = await this.#others()
    if (all.length === 0) return [hub.name]
    const failures: string[] = []
    for (const other of all.filter(isPresent)) {
      try {
        // Hubs of an older svc need `from`. Others fetch from the hub that has signed the request.
        const body = { ...facts, from: hub.url }
        await client.json(other, { method: 'POST', target: '/api/hub/archives', body, signal })
        return [hub.name, other.name]
      } catch (error) {
        signal.throwIfAborted()
        failures.push(`"${other.name}": ${reasonOf(error)}`)
      }
    }
    const why = failures.length === 0 ? `${countOf(all.length, 'other hub')} not seen lately` : failures.join('; ')
    const sentence = `The deployment was not accepted: its archive must be on two hubs, and no second hub can keep it (${why}). Try again in a moment`
    throw new Refusal('unavailable', 'no_second_copy', sentence, { retryAfterSeconds: 10 })
  }

  /**
   * Fetches an archive from the hub of this name and checks it. Refuses `hub_unknown`, `hub_unreachable`, `not_found`,
   * `archive_differs`.
   */
  async fetch(facts: ArchiveFacts, name: string, signal: AbortSignal): Promise<void> {
    const from = (await this.#others()).find(other => other.name === name)
    if (from === undefined) throw new Refusal('not_found', 'hub_unknown', `The cluster has no other hub "${name}"`)
    await this.#fetch(facts, from, signal)
  }

  /** Fetches everything that this hub lacks, and removes what no record keeps. */
  async mirror(signal: AbortSignal): Promise<void> {
    const { home, log } = this.#needs
    const facts = wantedIn(this.#needs.store)
    const kept = new Set(facts.map(({ deployId }) => deployId))
    const present = new Set((await readdir(home.deployments)).flatMap(name => filePattern.exec(name)?.[1] ?? []))
    for (const each of facts.filter(({ deployId }) => !present.has(deployId))) {
      await this.#fetchFromAny(each, signal).catch(error => {
        signal.throwIfAborted()
        if (!this.#absent.has(each.deployId))
          log(`Cannot fetch the archive of ${each.deployId} from another hub yet`, error)
        this.#absent.add(each.deployId)
      })
    }
    for (const deployId of present) if (!kept.has(deployId)) await this.#removeOld(deployId)
    await this.#fetchOutputs(signal)
    await this.#noteCopies(facts)
  }

  /** Fetches the archive of a deployment if this hub lacks it and another one has it. */
  async ensure(deployId: string, signal: AbortSignal): Promise<void> {
    if ((await stat(this.#pathOf(deployId)).catch(() => null)) !== null) return
    const facts = wantedIn(this.#needs.store).find(each => each.deployId === deployId)
    if (facts !== undefined) await this.#fetchFromAny(facts, signal)
  }

  #pathOf(deployId: string): string {
    return join(this.#needs.home.deployments, `${deployId}.zip`)
  }

  async #others(): Promise<ListedHub[]> {
    const { store, hub } = this.#needs
    return (await store.hubs()).filter(({ name }) => name !== hub.name)
  }

  async #fetchOnce(facts: ArchiveFacts, from: ListedHub, signal: AbortSignal): Promise<void> {
    const { home, ids } = this.#needs
    const { deployId, sha256, bytes } = facts
    if (await this.#linkKnown(facts)) return
    await makeDirectory(home.tmp, 0o700)
    const path = join(home.tmp, `${ids.token()}.zip`)
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          await this.#receive({ path, deployId, bytes, from, signal })
          break
        } catch (error) {
          signal.throwIfAborted()
          const isFinal = error instanceof Refusal && ['not_found', 'archive_differs'].includes(error.code)
          if (attempt === maxAttempts || isFinal) throw error
        }
      }
      if ((await stat(path)).size !== bytes || (await sha256OfFile(path)) !== sha256) {
        const sentence = `The archive of ${deployId} from ${from.url} is not the one that was wanted: its SHA-256 differs`
        throw new Refusal('unavailable', 'archive_differs', sentence)
      }
      await syncPath(path)
      await rename(path, this.#pathOf(deployId))
      await syncDirectory(home.deployments)
    } finally {
      await rm(path, { force: true })
    }
  }

  /** The archive of a rollback is that of an earlier deployment. */
  async #linkKnown({ deployId, sha256, bytes }: ArchiveFacts): Promise<boolean> {
    const { store, home } = this.#needs
    const rows = store.all('SELECT id FROM deployments WHERE archiveSha256 = ? AND hasArtifact = 1', sha256)
    for (const id of [deployId, ...rows.map(row => String(row['id']))]) {
      const found = await stat(this.#pathOf(id)).catch(() => null)
      if (found?.size !== bytes || (await sha256OfFile(this.#pathOf(id))) !== sha256) continue
      if (id !== deployId) {
        await rm(this.#pathOf(deployId), { force: true })
        const isLinked = await link(this.#pathOf(id), this.#pathOf(deployId)).then(
          () => true,
          () => false
        )
        if (!isLinked) return false
        await syncDirectory(home.deployments)
      }
      return true
    }
    return false
  }

  async #receive(wanted: {
    path: string
    deployId: string
    bytes: number
    from: ListedHub
    signal: AbortSignal
  }): Promise<void> {
    const { path, deployId, bytes, from, signal } = wanted
    const file = await open(path, 'a', 0o600)
    try {
      const { size } = await file.stat()
      const target = `/api/hub/archives/${deployId}`
      const answer = await this.#needs.client.ask(from, { method: 'GET', target, from: size, signal })
      if (size > 0 && answer.statusCode === 200) await file.truncate(0)
      const expected = answer.statusCode === 206 ? bytes - size : bytes
      for await (const chunk of atMost(expected, answer)) await file.write(chunk)
    } finally {
      await file.close()
    }
  }

  #fetch(facts: ArchiveFacts, from: ListedHub, signal: AbortSignal): Promise<void> {
    const known = this.#fetching.get(facts.deployId)
    if (known !== undefined) return known
    const running = this.#fetchOnce(facts, from, signal).finally(() => this.#fetching.delete(facts.deployId))
    this.#fetching.set(facts.deployId, running)
    return running
  }

  async #fetchFromAny(facts: ArchiveFacts, signal: AbortSignal): Promise<void> {
    const known = new Set(copiesOf(this.#needs.store, facts.deployId))
    const present = (await this.#others()).sort((a, b) => Number(known.has(b.name)) - Number(known.has(a.name)))
    let last: unknown = new Refusal('not_found', 'not_found', `No other hub has the archive of ${facts.deployId}`)
    for (const other of present) {
      try {
        return await this.#fetch(facts, other, signal)
      } catch (error) {
        signal.throwIfAborted()
        last = error
      }
    }
    throw last
  }

  /** Fetches the outputs of finished deployments that another hub wrote. */
  async #fetchOutputs(signal: AbortSignal): Promise<void> {
    const { home, store } = this.#needs
    const present = new Set(await readdir(home.deployments))
    const sql = `SELECT id FROM deployments WHERE status IN ('success', 'failed')`
    const missing = store.all(sql).map(row => String(row['id']))
    const hubs = await this.#others()
    for (const deployId of missing.filter(id => !present.has(`${id}.log`) && !this.#absent.has(`${id}.log`))) {
      let isFound = false
      for (const other of hubs) isFound ||= await this.#fetchOutput(deployId, other, signal)
      if (!isFound && hubs.length > 0) this.#absent.add(`${deployId}.log`)
    }
  }

  async #fetchOutput(deployId: string, from: ListedHub, signal: AbortSignal): Promise<boolean> {
    const { home, ids, client } = this.#needs
    const path = join(home.tmp, `${ids.token()}.zip`)
    try {
      const answer = await client.ask(from, { method: 'GET', target: `/api/hub/outputs/${deployId}`, signal })
      await writeFile(path, atMost(maxOutputBytes, answer), { mode: 0o600 })
      await rename(path, join(home.deployments, `${deployId}.log`))
      return true
    } catch {
      signal.throwIfAborted()
      return false
    } finally {
      await rm(path, { force: true })
    }
  }

  /** Removes the archive of a deployment that does not keep it any more. */
  async #removeOld(deployId: string): Promise<void> {
    const row = this.#needs.store.get('SELECT hasArtifact FROM deployments WHERE id = ?', deployId)
    const found = await stat(this.#pathOf(deployId)).catch(() => null)
    const isArriving = row === undefined && found !== null && Date.now() - found.mtimeMs < arrivingMs
    const isComposed = row !== undefined && row['hasArtifact'] === 1
    if (!isArriving && !isComposed) await rm(this.#pathOf(deployId), { force: true })
  }

  /**
   * The leader records which archives it has itself, and forgets those of hubs that have left. The other hubs are asked when it
   * matters.
   */
  async #noteCopies(facts: readonly ArchiveFacts[]): Promise<void> {
    const { store, home, hub } = this.#needs
    if (store.role().kind !== 'leader') return
    const present = new Set(await readdir(home.deployments))
    const missing = facts.filter(
      ({ deployId }) => present.has(`${deployId}.zip`) && !copiesOf(store, deployId).includes(hub.name)
    )
    const names = new Set([hub.name, ...(await this.#others()).map(({ name }) => name)])
    const rows = store.all('SELECT DISTINCT hub FROM blobCopies').map(row => String(row['hub']))
    const left = rows.filter(name => !names.has(name))
    const isStale =
      store.get('SELECT 1 FROM blobCopies WHERE deployId NOT IN (SELECT id FROM deployments WHERE hasArtifact = 1)') !==
      undefined
    if (missing.length === 0 && left.length === 0 && !isStale) return
    await store.write(tx => {
      for (const { deployId } of missing) putCopy(tx, { deployId, hub: hub.name })
      for (const name of left) dropCopiesOf(tx, name)
      dropCopies(tx)
    })
  }
}

/** Returns the archives that the records keep. */
function wantedIn(store: ArchivesNeeds['store']): ArchiveFacts[] {
  const sql =
    'SELECT id, archiveSha256, archiveBytes FROM deployments WHERE hasArtifact = 1 AND archiveSha256 IS NOT NULL'
  return store.all(sql).map(row => {
    return { deployId: String(row['id']), sha256: String(row['archiveSha256']), bytes: Number(row['archiveBytes']) }
  })
}

function isPresent({ seenAt }: ListedHub): boolean {
  return seenAt === null || Date.now() - Date.parse(seenAt) < absentMs
}

/** Yields what another hub sends, and ends the connection if it is more. */
async function* atMost(bytes: number, answer: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let read = 0
  for await (const chunk of answer) {
    read += chunk.length
    if (read > bytes)
      throw new Refusal('unavailable', 'archive_differs', `The other hub sends more than ${bytes} bytes`)
    yield chunk
  }
}

/** Keeps the files of deployments on this hub as the records say. */
export type Mirror = ReturnType<typeof startMirror>

export interface MirrorNeeds {
  archives: Pick<Archives, 'mirror'>
  store: Pick<ReplicatedStore, 'version' | 'onRole'>
  log(message: string, error?: unknown): void
  /** Time between two looks at the records. */
  everyMs?: number
  /** Time after which everything is looked at, even if no record has changed: another hub may be back. */
  againMs?: number
}

const tables = ['deployments'] as const

/** Starts the mirror. It works when a record has changed, and now and then. */
export function startMirror({ archives, store, log, everyMs = 2000, againMs = 60_000 }: MirrorNeeds) {
  const stopping = new AbortController()
  let seen: string | null = null
  let lastMs = 0
  let working: Promise<void> = Promise.resolve()
  let isBusy = false

  function look(): void {
    const version = store.version(tables)
    if (isBusy || stopping.signal.aborted || (version === seen && Date.now() - lastMs < againMs)) return
    isBusy = true
    seen = version
    lastMs = Date.now()
    working = archives
      .mirror(stopping.signal)
      .catch(error => {
        if (!stopping.signal.aborted) log('Cannot bring the archives of this hub up to date yet', error)
      })
      .finally(() => void (isBusy = false))
  }

  const timer = setInterval(look, everyMs).unref()
  const stopListening = store.onRole(() => void (seen = null))
  return {
    async stop(): Promise<void> {
      clearInterval(timer)
      stopListening()
      stopping.abort()
      await working
    }
  }
}

import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { footprintOf, sizesOf, type Footprint } from './footprint.js'
import { createMixedLoad } from './mixed-load.js'
import { startServeProcess, type ServeProcess } from './serve-process.js'

export interface SoakOptions {
  /** Duration of the load. */
  seconds: number
  seed: number
  say(line: string): void
}

const inside = fileURLToPath(new URL('./inside.js', import.meta.url))
/** Idle threads end after some seconds; a shell that was left, after two minutes. */
const settleMs = 200_000
const pollMs = 1000
/** Time before memory is measured, so that all code is loaded and compiled. */
const warmUpSeconds = 30
/** From this time on, memory is compared. */
const longSeconds = 30
/** From this time on, shells are left open, which the server keeps for two minutes. */
const shellSeconds = 240
/** Memory that a start and a first look load later. */
const quietMs = 15_000
/** Growth that is allowed: records and audit entries stay in memory, and V8 keeps some free memory. */
const heapMarginBytes = 16e6
const rssMarginBytes = 80e6
/** What a server has at rest, before anything here made it collect (lib/base/runtime.ts), and the most that passes. */
const restBytes = 140e6
const maxRestBytes = 150e6
/** Twice the time between two of its looks, and the time that the last shells live. */
const restMs = 200_000
const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`

/**
 * A real server under everything at once; then it must have what it had when it was new: descriptors, timers, handles,
 * child processes, temporary files; and in a long soak the memory that it had when it was warm. Every honest operation
 * succeeds.
 */
export async function soakMixed(t: Test, { seconds, seed, say }: SoakOptions): Promise<void> {
  const directory = t.testdir({})
  const sites = join(directory, 'sites')
  mkdirSync(sites)
  const server = await startServeProcess(t, directory, [], {}, { nodeWords: ['--expose-gc', '--import', inside] })
  const isLong = seconds >= longSeconds
  const load = await createMixedLoad({ server, sites, seed, leavesShells: seconds >= shellSeconds })
  if (isLong) await sleep(quietMs)
  const begun = await footprintOf(server, sites)
  say(`begun:  ${lineOf(begun)}`)
  await load.run(isLong ? warmUpSeconds : seconds)
  const warm = isLong ? await settle(server, sites, begun) : begun
  if (isLong) say(`warm:   ${lineOf(warm)}`)
  for (let half = 0; half < 2 && isLong; half++) {
    await load.run(seconds / 2)
    if (half === 0) say(`half:   ${lineOf(await footprintOf(server, sites))}`)
  }
  say(`loaded: RSS ${mb(sizesOf(server.pid).rssBytes)}`)
  say(
    `done:   ${Object.entries(load.done)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')}; seed ${seed}`
  )
  const rest = isLong ? await comesToRest(server) : 0
  const ended = await settle(server, sites, begun)
  say(`ended:  ${lineOf(ended)}`)

  t.same(load.faults, [], 'every honest operation succeeds')
  t.same(more(ended.descriptors, begun.descriptors), {}, 'descriptors are those it began with')
  t.same(more(ended.resources, begun.resources), {}, 'timers and handles are those it began with')
  t.same(ended.children, begun.children, 'no child process is left')
  t.same(ended.temporary, [], 'no temporary file is left')
  t.same(ended.staging, [], 'no staging directory is left')
  t.same(await strayFiles(server), [], 'every file in deployments/ has its record')
  if (isLong) {
    t.ok(
      ended.heapBytes < warm.heapBytes + heapMarginBytes,
      `heap ${mb(warm.heapBytes)} → ${mb(ended.heapBytes)}, margin ${mb(heapMarginBytes)}`
    )
    t.ok(
      ended.rssBytes < warm.rssBytes + rssMarginBytes,
      `RSS ${mb(warm.rssBytes)} → ${mb(ended.rssBytes)}, margin ${mb(rssMarginBytes)}`
    )
    t.ok(rest < maxRestBytes, `at rest RSS ${mb(rest)}, at most ${mb(maxRestBytes)}`)
  }
  t.equal(await server.stop(), 0)
}

/** Waits until the server has given back what it does not need, or until the time limit. Returns its memory in bytes. */
async function comesToRest({ pid }: ServeProcess): Promise<number> {
  const untilMs = performance.now() + restMs
  for (;;) {
    await sleep(pollMs)
    const { rssBytes } = sizesOf(pid)
    if (rssBytes < restBytes || performance.now() > untilMs) return rssBytes
  }
}

/** Waits until the server uses no more than before, or until the time limit. */
async function settle(server: ServeProcess, sites: string, { descriptors, resources }: Footprint): Promise<Footprint> {
  const untilMs = performance.now() + settleMs
  for (;;) {
    await sleep(pollMs)
    const now = await footprintOf(server, sites)
    const left = [...Object.keys(more(now.descriptors, descriptors)), ...Object.keys(more(now.resources, resources))]
    const isBack = left.length + now.children.length + now.temporary.length + now.staging.length === 0
    if (isBack || performance.now() > untilMs) return now
  }
}

/** Returns what has grown, and by how much. */
function more(now: Record<string, number>, before: Record<string, number>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(now)
      .map(([kind, count]) => [kind, count - (before[kind] ?? 0)] as const)
      .filter(([, count]) => count > 0)
  )
}

/** Returns files of deployments without a record, and records without their archive. */
async function strayFiles(server: ServeProcess): Promise<string[]> {
  const records = new Map<string, boolean>()
  for (let before = ''; ; ) {
    const page = await server.api<Array<{ id: string; hasArtifact: boolean }>>('GET', `/api/logs?limit=500${before}`)
    for (const { id, hasArtifact } of page) records.set(id, hasArtifact)
    if (page.length === 0) break
    before = `&before=${page.at(-1)?.id}`
  }
  return readdirSync(join(server.home, 'deployments')).filter(name => {
    const hasArtifact = records.get(name.slice(0, name.indexOf('.')))
    return hasArtifact === undefined || (name.endsWith('.zip') && !hasArtifact)
  })
}

function lineOf({
  descriptors,
  resources,
  heapBytes,
  arrayBufferBytes,
  rssBytes,
  threads,
  children,
  temporary,
  staging
}: Footprint): string {
  const sum = Object.values(descriptors).reduce((total, count) => total + count, 0)
  const kinds = Object.entries(resources)
    .map(([kind, count]) => `${kind} ${count}`)
    .join(' ')
  return (
    `${sum} descriptors, ${threads} threads, ${children.length} children, ${temporary.length} temporary, ${staging.length} staging, ` +
    `heap ${mb(heapBytes)}, buffers ${mb(arrayBufferBytes)}, RSS ${mb(rssBytes)}; ${kinds}`
  )
}

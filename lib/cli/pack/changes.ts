/*
 * Decides what a push sends: the whole archive, or what has changed since a release that the server keeps. Changes are
 * sent if the server knows how to build on them, and if they are less than most of the files.
 */
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import { Refusal } from '../../base/errors.js'
import { countOf, grouped } from '../../base/text.js'
import {
  compareWithBase,
  type BaseEntries,
  isMostlyNew,
  minChangesBytes,
  refusedChanges,
  writeDelta
} from '../../base/shared/tree-delta.js'
import { readTree } from '../../core/archive/tree-wire.js'
import type { UploadPermit } from '../../model/access.js'
import type { Client } from '../client/client.js'
import { isBroken } from '../client/answer.js'
import { type Context, usage } from '../command.js'
import { type Found, findFiles, readFound } from './pack.js'
import { makePatches, type Patches } from './patches.js'
import type { PushedTree, PushIndex } from './push-index.js'

/** What is sent instead of the whole archive. */
export interface Changes {
  /** The release that the server completes it with. */
  base: string
  treeSha256: string
  /** The differences of the trees, compressed. */
  delta: Uint8Array
  /** The paths whose contents are sent whole. */
  paths: ReadonlySet<string>
  /** The differences within other files; null: there are none. */
  patches: Patches | null
  /** Number of all files and links. */
  files: number
}

/** What to send. */
export interface Sending {
  found: Found
  /** The tree, if it was read. */
  tree: PushedTree | null
  /** Null: the whole archive. */
  changes: Changes | null
  /** Why the whole archive is sent, for a line of output; null: nothing else was possible or worth it. */
  whole: string | null
}

interface Choosing {
  client: Client
  projectId: string
  config: EffectiveConfig
  permit: UploadPermit | null
  /** The lookup of the files, if it has begun. */
  finding: Promise<Found> | null
  index: PushIndex
  mode: IncrementalMode
  /** Repeats a question while its answer does not arrive. */
  ask<T>(question: () => Promise<T>): Promise<T>
  signal: AbortSignal
}

/** The values of `--incremental`. */
export const incrementalModes = ['auto', 'never', 'require'] as const
/** Whether changes are sent: if it pays, never, or in any case. */
export type IncrementalMode = (typeof incrementalModes)[number]

const compress = promisify(gzip)

/** Returns what to send. Refuses (`unsupported`, whole_needed) if only the whole archive could be sent. */
export async function chooseSending(choosing: Choosing, context: Context): Promise<Sending> {
  const { config, permit, index, mode, signal } = choosing
  const found = await (choosing.finding ?? findFiles(context, config, signal))
  const whole = (why: string | null, tree: PushedTree | null = null): Sending => {
    if (mode === 'require') throw wholeNeeded(why ?? 'this server takes whole archives only')
    return { found, tree, changes: null, whole: why }
  }
  const base = permit?.base
  if (mode === 'never' || base === undefined) return whole(null)
  if (mode === 'auto' && found.bytes < minChangesBytes) return whole(null)
  if (base === null) return whole('the server keeps no earlier release')
  const tree = await readFound(context, found, { index, what: config.outputDir.value, signal })
  const entries = base.treeSha256 === index.treeSha256 ? index.entries : await baseTree(base.deployId, choosing)
  if (entries === null) return whole('the server cannot read the earlier release', tree)
  const delta = compareWithBase(entries, tree)
  const takesPatches = permit?.features.includes('patches') === true
  const ask = (lines: number[]): Promise<Buffer | null> => baseSums(base.deployId, lines, choosing)
  const { sources } = found
  const patches = takesPatches ? await makePatches({ delta, base: entries, sources, ask, signal }) : null
  const missing = delta.missing.filter(({ path }) => patches?.paths.has(path) !== true)
  if (mode === 'auto' && isMostlyNew({ missing }, tree.bytes)) return whole('most of it has changed', tree)
  const { treeSha256 } = tree
  const changes = {
    base: base.deployId,
    treeSha256,
    delta: await compress(writeDelta(delta, treeSha256)),
    paths: new Set(missing.map(({ path }) => path)),
    patches,
    files: tree.entries.length
  }
  return { found, tree, changes, whole: null }
}

/** Returns the entries of a base; null: the server does not have them any more. */
async function baseTree(deployId: string, { client, projectId, ask, signal }: Choosing): Promise<BaseEntries | null> {
  const asked = { query: { projectId, deployId }, accept: '*/*', signal } as const
  try {
    const body = await ask(async () => await buffer(await client.ask('GET /api/deploy/base', asked)))
    return { values: readTree(body).entries }
  } catch (error) {
    if (isRefusedChange(error)) return null
    if (error instanceof Refusal || !isBroken(error)) throw error
    const sentence = 'The list of the files that the server has was cut off'
    throw new Refusal('unavailable', 'stream_broken', sentence, { cause: error })
  }
}

/** Returns sums of files of a base, by their lines; null: without them, whole files are sent. */
async function baseSums(
  deployId: string,
  lines: number[],
  { client, projectId, ask, signal }: Choosing
): Promise<Buffer | null> {
  const asked = { query: { projectId, deployId }, body: { lines }, accept: '*/*', signal } as const
  try {
    return await ask(async () => await buffer(await client.ask('POST /api/deploy/sums', asked)))
  } catch {
    signal.throwIfAborted()
    return null
  }
}

/** Whether a server refused changes that it would accept as a whole archive. */
export function isRefusedChange(error: unknown): error is Refusal {
  return error instanceof Refusal && refusedChanges.has(error.code)
}

export function incrementalMode(text: string | undefined): IncrementalMode {
  const mode = incrementalModes.find(each => each === (text ?? 'auto'))
  if (mode === undefined) throw usage('--incremental', `--incremental cannot be "${text}": use auto, never or require`)
  return mode
}

function wholeNeeded(why: string): Refusal {
  return new Refusal('unsupported', 'whole_needed', `Nothing was sent: --incremental require, but ${why}`)
}

/** Returns the end of the line about a packed archive. */
export function sendingNote({ changes, whole }: Sending): string {
  if (changes !== null) {
    const { files, paths, patches, base } = changes
    const patched = patches?.paths.size ?? 0
    const parts = patched === 0 ? '' : `${grouped(patched)} as differences, `
    return ` (${parts}${countOf(files - paths.size - patched, 'other file')} from ${base})`
  }
  return whole === null ? '' : ` (all files: ${whole})`
}

import type { DigestedTree } from '../archive/plan-tree.js'
import { type BaseEntry, compareWithBase, isMostlyNew, minChangesBytes, writeDelta } from '../shared/tree-delta.js'
import type { Client } from './client.js'
import { Refused } from './client.js'

/** What is sent instead of all files (lib/cli/pack/changes.ts is the same for `svc push`). */
export interface Changes {
  /** The kept release that the server completes it with. */
  base: string
  treeSha256: string
  /** The differences of the trees. */
  delta: Blob
  /** The paths whose contents are sent. */
  paths: ReadonlySet<string>
}

interface Asked {
  client: Client
  projectId: string
  tree: DigestedTree
  signal: AbortSignal
}

const mediaType = 'text/vnd.svc-tree'

/**
 * Returns what has changed since the newest release that the server keeps; null: all files are to be sent, because there
 * is no such release, or too little is saved. A failure is no reason not to deploy.
 */
export async function findChanges(asked: Asked): Promise<Changes | null> {
  try {
    return await compare(asked)
  } catch (error) {
    if (error instanceof Refused) return null
    throw error
  }
}

async function compare({ client, projectId, tree, signal }: Asked): Promise<Changes | null> {
  const { entries, treeSha256 } = tree
  const bytes = entries.reduce((sum, { size }) => sum + size, 0)
  if (bytes < minChangesBytes) return null
  const { base } = await client.call('GET /api/deploy/check', { query: { projectId, base: treeSha256 }, signal })
  if (!base) return null
  const asked = new URLSearchParams({ projectId, deployId: base.deployId })
  const text = await (await client.send('GET', `api/deploy/base?${asked}`, { signal })).text()
  const delta = compareWithBase(readBase(text), { entries })
  if (isMostlyNew(delta, bytes)) return null
  const paths = new Set(delta.missing.map(({ path }) => path))
  const written = new Blob([writeDelta(delta, treeSha256)], { type: mediaType })
  return { base: base.deployId, treeSha256, delta: written, paths }
}

/** Reads the lines of a tree (lib/core/archive/tree-wire.ts). */
function readBase(text: string): Map<string, BaseEntry> {
  const found = new Map<string, BaseEntry>()
  for (const [, mode = '', size, sha256 = '', path = ''] of text.matchAll(
    /^([0-7]{6}) (\d{1,16}) ([0-9a-f]+) -?\d{1,16} (.+)$/gm
  )) {
    found.set(path, { path, mode: Number.parseInt(mode, 8), size: Number(size), sha256 })
  }
  return found
}

/* What may be left on the disk, and of processes, after a start: what a record names, and what was meant to stay. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readIndex } from '../../lib/core/archive/pack-index.js'
import type { Deployment } from '../../lib/model/deployment.js'
import type { CheckNeeds } from './crash-promises.js'
import { markedProcesses, type MarkedProcess } from './marked-processes.js'
import { isRunning } from './processes.js'

const pollMs = 20
/** Time limit for what ends by itself: a process that was sent SIGKILL, the file of a probe. */
const settleMs = 3000

const homeNames = new Set(['config.json', 'svc.db', 'svc.db.redo', 'svc.sock', 'deployments', 'keys', 'tmp', 'trees'])
const keyNames = new Set(['server.ed25519', 'server.pub'])

/** Checks names in the data directory, in targets and among temporary files. */
export async function checkStrays(needs: CheckNeeds, named: ReadonlyMap<string, Deployment>): Promise<void> {
  const { complain } = needs
  let strays = findStrays(needs, named)
  for (
    const untilMs = performance.now() + settleMs;
    strays.length > 0 && performance.now() < untilMs;
    strays = findStrays(needs, named)
  ) {
    // The files of a probe, of a checkpoint and of a tree that is being written are removed or renamed soon.
    if (!strays.every(path => /(health\.probe|svc\.db\S*\.tmp|\.tree\.tmp)$/.test(path))) break
    await sleep(pollMs)
  }
  for (const path of strays) complain('stray', path)
}

export function findStrays(
  { places, lost }: Pick<CheckNeeds, 'places' | 'lost'>,
  named: ReadonlyMap<string, Deployment>
): string[] {
  const { home, sites, temporary } = places
  const packs = packsIn(join(home, 'deployments'))
  const [trees, keys] = [join(home, 'trees'), join(home, 'keys')]
  const isNamed = (name: string): boolean => {
    const [id = '', kind = ''] = [name.slice(0, 20), name.slice(20)]
    const record = named.get(id)
    if (kind === '.pack' && packs.has(id)) return true
    if (record === undefined) return lost.has(id) && (kind === '.manifest' || kind === '.scripted')
    if (kind === '.before.zip') return keepsImages(join(home, 'deployments', `${id}.manifest`))
    if (kind === '.scripted' || kind === '.scripted.zip') return record.hasArtifact
    if (kind === '.index') return record.hasArtifact
    return kind === '.log' || kind === '.manifest' || (kind === '.zip' && record.hasArtifact)
  }
  const inside = (directory: string, isStray: (name: string) => boolean): string[] =>
    readdirSync(directory)
      .filter(isStray)
      .map(name => join(directory, name))
  const targets = readdirSync(sites).map(name => join(sites, name))
  return [
    ...inside(home, name => !homeNames.has(name)),
    ...inside(join(home, 'deployments'), name => !isNamed(name)),
    ...inside(join(home, 'tmp'), () => true),
    ...(existsSync(keys) ? inside(keys, name => !keyNames.has(name)) : []),
    ...(existsSync(trees) ? inside(trees, name => !/^proj_\w+\.tree$/.test(name)) : []),
    ...inside(temporary, name => name.startsWith('svc-')),
    ...targets.flatMap(target => inside(target, name => name.startsWith('.svc-')))
  ]
}

/** Returns the packs that the indexes of a directory name. */
function packsIn(directory: string): Set<string> {
  const indexes = readdirSync(directory).filter(name => name.endsWith('.index'))
  return new Set(indexes.flatMap(name => readIndex(readFileSync(join(directory, name)), name).packs))
}

/** Whether a manifest says that earlier contents are in the before-images of its deployment. */
function keepsImages(manifest: string): boolean {
  return existsSync(manifest) && readFileSync(manifest, 'utf8').includes('"kept":"before"')
}

/**
 * What a script that ended by itself has left running was meant to; everything else was not. What was is ended here.
 */
export async function checkProcesses({ places, serverPid, helpers, complain }: CheckNeeds): Promise<void> {
  const unwanted = (): MarkedProcess[] =>
    markedProcesses(places.sites).filter(
      ({ pid, deployId, step }) => pid !== serverPid && !existsSync(join(places.proofs, `${deployId}.${step}.ended`))
    )
  let left = unwanted()
  for (
    const untilMs = performance.now() + settleMs / 6;
    left.length > 0 && performance.now() < untilMs;
    left = unwanted()
  )
    await sleep(pollMs)
  for (const pid of helpers)
    if (isRunning(pid)) complain('process', `the helper process ${pid} still works on a target`)
  for (const { pid, command, deployId, step } of left)
    complain('process', `${command} (${pid}) of the ${step} script of ${deployId} still runs`)
  for (const { pid } of markedProcesses(places.sites)) {
    if (pid !== serverPid) process.kill(pid, 'SIGKILL')
  }
}

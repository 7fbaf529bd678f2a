import { existsSync, readdirSync, watch, type FSWatcher } from 'node:fs'
import { join } from 'node:path'
import type { CrashPlaces } from './crash-needs.js'
import type { Random } from './random.js'

/** The moment at which a server is killed: some time after a point was reached. */
export interface Moment {
  name: string
  /** The point; undefined means the start of the load. */
  point?: string
  /** Maximum time after the point in ms. */
  withinMs: number
  weight: number
}

/** Number of writes after which the database is folded. */
export const largePoint = 'the database file is rewritten'
const fullPoint = 'the disk is full'
/** Sends SIGTERM first, then SIGKILL up to `withinMs` later. */
export const stopMoment = 'it is told to stop'

/** Points that the load reports (`reached`), and points that are seen on the disk (`watchPoints`). */
export const moments: readonly Moment[] = [
  { name: 'at random', withinMs: 700, weight: 14 },
  ...of(['an upload is half sent'], 3, 3),
  ...of(['an upload was sent'], 12, 10),
  ...of(['an upload is acknowledged'], 20, 7),
  ...of(['changes were sent', 'an archive is assembled'], 10, 7),
  ...of(['an index is kept', 'a pack is kept'], 4, 6),
  ...of(['an extraction begins'], 5, 9),
  ...of(['staging is there'], 8, 9),
  ...of(['files are renamed'], 3, 14),
  ...of(['a manifest is written'], 4, 6),
  ...of(['a journal is removed'], 8, 9),
  ...of(['a pre-deploy script runs', 'a post-deploy script runs'], 60, 9),
  ...of(['a script ends'], 20, 9),
  ...of(['a rollback is asked for', 'a cancel is asked for'], 15, 7),
  ...of(['a mark is asked for', 'a project is changed', 'settings are changed', 'the admin token is changed'], 5, 4),
  ...of(['a project is deleted'], 8, 7),
  ...of(['config.json is written', largePoint], 2, 4),
  ...of([fullPoint], 300, 0),
  { name: stopMoment, withinMs: 400, weight: 6 }
]

function of(points: readonly string[], withinMs: number, weight: number): Moment[] {
  return points.map(point => ({ name: point, point, withinMs, weight }))
}

/** Points that occur only while the admin token is being changed. */
export const tokenPoints = new Set(['the admin token is changed', 'config.json is written'])

/** Returns a random moment; with a small disk, often the one when it has filled up. */
export function someMoment(random: Random, isDiskSmall: boolean): Moment {
  if (isDiskSmall && random.below(3) === 0) return moments.find(({ name }) => name === fullPoint) as Moment
  let at = random.below(moments.reduce((sum, { weight }) => sum + weight, 0))
  return moments.find(({ weight }) => (at -= weight) < 0) as Moment
}

/** Reports disk operations as they happen. Returns the function that stops reporting. */
export function watchPoints(
  { home, proofs }: CrashPlaces,
  targets: readonly string[],
  reached: (point: string) => void
): () => void {
  const deployments = join(home, 'deployments')
  const watchers: FSWatcher[] = []
  const look = (directory: string, seen: (name: string) => string | null): void => {
    const watcher = watch(directory, (_kind, name) => {
      const point = name === null ? null : seen(name)
      if (point !== null) reached(point)
    })
    watchers.push(watcher.on('error', () => {}))
  }
  look(deployments, name => {
    if (name.endsWith('.undo'))
      return existsSync(join(deployments, name)) ? 'an extraction begins' : 'a journal is removed'
    if (name.endsWith('.index') || name.endsWith('.pack'))
      return name.endsWith('.index') ? 'an index is kept' : 'a pack is kept'
    return name.endsWith('.manifest') ? 'a manifest is written' : null
  })
  look(join(home, 'tmp'), name => (name.endsWith('.index') ? 'an archive is assembled' : null))
  look(home, name => {
    if (name.startsWith('config.json')) return 'config.json is written'
    return /^svc\.db.*\.tmp$/.test(name) ? largePoint : null
  })
  look(proofs, name => {
    if (name.endsWith('.ended')) return 'a script ends'
    return name.endsWith('.pre.begun')
      ? 'a pre-deploy script runs'
      : name.endsWith('.post.begun')
        ? 'a post-deploy script runs'
        : null
  })
  for (const target of targets.filter(existsSync)) {
    look(target, name =>
      name === 'index.html' ? 'files are renamed' : name.startsWith('.svc-') ? 'staging is there' : null
    )
  }
  return () => watchers.forEach(watcher => watcher.close())
}

/** Returns the states of the undo journals in a directory: `begun`, `ready` or `done`. */
export function journalStates(texts: readonly string[]): string[] {
  return texts.map(text => (/\ndone\n$/.test(text) ? 'done' : /\nready \d+ \w+\n/.test(text) ? 'ready' : 'begun'))
}

/** Returns the names of the undo journals in a data directory. */
export function journalsIn(home: string): string[] {
  const deployments = join(home, 'deployments')
  return existsSync(deployments)
    ? readdirSync(deployments)
        .filter(name => name.endsWith('.undo'))
        .map(name => join(deployments, name))
    : []
}

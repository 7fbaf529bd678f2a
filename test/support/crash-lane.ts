/* One data directory of a crash run, with the targets of its projects. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRegister, type Model } from './crash-model.js'
import { journalsIn, journalStates } from './crash-moments.js'
import type { CrashPlaces } from './crash-needs.js'
import type { Complain } from './crash-promises.js'
import type { CrashReport } from './crash-report.js'
import type { CrashServer } from './crash-server.js'
import { createRandom, type Random } from './random.js'

export interface CrashOptions {
  seconds: number
  seed: number
  /** Maximum number of kills; the run ends even if there is time left. */
  kills: number
  /** Number of data directories that are used at the same time. */
  lanes: number
  /** Size of a separate disk that fills up now and then; null uses the machine's disk. */
  diskMegabytes: number | null
  say(line: string): void
}

export interface Lane {
  base: string
  places: CrashPlaces
  /** The disk that fills up, or null. */
  disk: string | null
  model: Model
  report: CrashReport
  random: Random
  runAs: string | null
  lane: number
  round: number
  /** How far the clock of its servers is ahead of the machine's. */
  aheadMs: number
  /** What the last backup contains; null if there is none. */
  backup: Model | null
  /** Unfinished deployments that no record of the restored database names. Their lists stay. */
  lost: Set<string>
  /** State at the last kill. */
  moment: string
  next(): number
  /** Processes that worked on targets when the server was killed. */
  helpers: number[]
  complain: Complain
}

/** Creates the directories of a lane; `closeLane` removes them. */
export function openLane(options: CrashOptions, report: CrashReport, number: number): Lane {
  const base = mkdtempSync(join(realpathSync(tmpdir()), 'svc-crash-'))
  const at = (name: string, mode: number): string => {
    mkdirSync(join(base, name))
    chmodSync(join(base, name), mode)
    return join(base, name)
  }
  chmodSync(base, 0o755)
  const disk = options.diskMegabytes === null ? null : at('disk', 0o755)
  if (disk !== null)
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${options.diskMegabytes}m,mode=755`, 'tmpfs', disk])
  const below = disk === null ? '' : 'disk/'
  const places = {
    home: at(`${below}home`, 0o700),
    sites: at(`${below}sites`, 0o755),
    proofs: at('proofs', 0o1777),
    temporary: at('tmp', 0o1777)
  }
  const settings = { default_deploy_path: '', script_timeout: '1800', keep_archives: '10', durable_targets: 'true' }
  const told = new Set<string>()
  let count = 0
  const lane: Lane = {
    base,
    places,
    disk,
    report,
    lane: number,
    round: 0,
    aheadMs: 0,
    backup: null,
    lost: new Set(),
    moment: 'nothing',
    runAs: otherUser(),
    random: createRandom(options.seed),
    model: {
      projects: [],
      askedProjects: new Set(),
      settings: createRegister<Record<string, string>>(settings),
      tags: createRegister<readonly string[]>([]),
      adminToken: createRegister('')
    },
    next: () => ++count,
    helpers: [],
    complain(invariant, sentence) {
      // What stays is told once.
      if (told.has(sentence)) return
      told.add(sentence)
      report.violations.push({ invariant, lane: number, round: lane.round, moment: lane.moment, sentence })
      if (process.env['CRASH_KEEP'] !== undefined) options.say(`${number}/${lane.round} ${invariant}: ${sentence}`)
    }
  }
  return lane
}

/** Removes the directories; with CRASH_KEEP, only those of lanes without violations. */
export function closeLane({ base, disk, report }: Lane, { say }: CrashOptions): void {
  if (report.violations.length > 0 && process.env['CRASH_KEEP'] !== undefined) return say(`kept: ${base}`)
  if (disk !== null) execFileSync('umount', ['-l', disk])
  rmSync(base, { recursive: true, force: true })
}

/** The user of a project's scripts and files, or null if no other user is available. */
function otherUser(): string | null {
  return process.geteuid?.() === 0 && spawnSync('setpriv', ['--version'], { stdio: 'ignore' }).status === 0
    ? 'nobody'
    : null
}

/** Counts a kill and the progress of the extractions at that moment. */
export function noteKill(lane: Lane, moment: string, server: CrashServer): void {
  const { places, report } = lane
  report.kills++
  lane.moment = moment
  const counts = report.moments.get(moment) ?? {}
  const count = (what: string): void => void (counts[what] = (counts[what] ?? 0) + 1)
  count('kills')
  const journals = journalsIn(places.home).map(path => readFileSync(path, 'latin1'))
  lane.helpers = journals.flatMap(text => /\nhelper \S+ (\d+) /.exec(text)?.[1] ?? []).map(Number)
  const states = journalStates(journals)
  for (const state of new Set(states)) count(state)
  report.moments.set(moment, counts)
  for (const line of server
    .said()
    .split('\n')
    .filter(line => /^\S/.test(line))) {
    const head = line
      .replace(/dep_\w+|"[^"]*"|\/\S+|\d+/g, '…')
      .replace(/…[… ,]*(and … more)?/g, '… ')
      .slice(0, 160)
    report.complaints.set(head, (report.complaints.get(head) ?? 0) + 1)
  }
}

/** With CRASH_KEEP, keeps the data directory as the next start finds it. */
export function keepForLater({ base, places, report }: Lane): void {
  if (process.env['CRASH_KEEP'] === undefined || report.violations.length > 0) return
  const kept = join(base, 'killed')
  rmSync(kept, { recursive: true, force: true })
  for (const name of ['home', 'sites'] as const)
    cpSync(places[name], join(kept, name), {
      recursive: true,
      verbatimSymlinks: true,
      preserveTimestamps: true,
      filter: path => !/svc\.sock/.test(path)
    })
}

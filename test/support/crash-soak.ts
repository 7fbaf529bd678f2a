/*
 * Rounds of a crash run: a server starts, everything that must hold is looked at, a load begins, and at a moment that
 * the seed chooses the server is killed; now and then the next start is killed, too.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { checkAll } from './crash-checks.js'
import { invariants, type Complain, type Invariant } from './crash-promises.js'
import { addProject, removeProject, runLoad } from './crash-load.js'
import type { CrashPlaces, LoadNeeds } from './crash-needs.js'
import { createRegister, type Model } from './crash-model.js'
import { journalsIn, journalStates, largePoint, someMoment, stopMoment, tokenPoints, watchPoints } from './crash-moments.js'
import { awaitHealth, startCrashServer, type CrashServer } from './crash-server.js'
import { readTree, type Tree } from './crash-site.js'
import type { CrashClient } from './crash-client.js'
import { createRandom, type Random } from './random.js'

export interface CrashOptions {
  seconds: number
  seed: number
  /** Ends after so many, even if there is time left. */
  kills: number
  /** Data directories that are killed beside each other. */
  lanes: number
  say(line: string): void
}

export interface Violation {
  invariant: Invariant
  lane: number
  round: number
  /** Of the kill before it. */
  moment: string
  sentence: string
}

export interface CrashReport {
  kills: number
  acknowledged: number
  /** For each moment: how many kills, and how many of them left journals that had come so far. */
  moments: Map<string, Record<string, number>>
  violations: Violation[]
  /** Lines that servers said on stderr, with their numbers. */
  complaints: Map<string, number>
}

/** Of each kind of violation, so many are told. */
const mostTold = 25
/** A project has so many rounds; the next one has a target of its own. */
const roundsOfProject = 25
/** A load that has not come to its moment after this is killed all the same. */
const longestLoadMs = 3000
/** Of a hundred starts after a kill, so many are killed, too. */
const killedStartsPercent = 18
/** A start takes about this, with what a kill left behind. */
const startMs = 450

/** Kills servers until the time or the kills are used up. */
export async function soakCrash(options: CrashOptions): Promise<CrashReport> {
  const report: CrashReport = { kills: 0, acknowledged: 0, moments: new Map(), violations: [], complaints: new Map() }
  const untilMs = performance.now() + options.seconds * 1000
  await Promise.all(Array.from({ length: options.lanes }, (_, lane) => runLane(options, report, lane, untilMs)))
  return report
}

/** One check for each promise; what breaks it is told before. */
export function checkReport(t: Pick<Test, 'comment' | 'equal'>, { violations }: CrashReport): void {
  for (const invariant of Object.keys(invariants) as Invariant[]) {
    const found = violations.filter(each => each.invariant === invariant)
    for (const { lane, round, moment, sentence } of found.slice(0, mostTold)) {
      t.comment(`${invariant}, lane ${lane}, round ${round} (killed: ${moment}): ${sentence}`)
    }
    t.equal(found.length, 0, invariants[invariant])
  }
}

interface Lane {
  base: string
  places: CrashPlaces
  model: Model
  report: CrashReport
  random: Random
  runAs: string | null
  lane: number
  round: number
  /** Of the last kill. */
  moment: string
  next(): number
  /** Processes that worked on targets when the server was killed. */
  helpers: number[]
  complain: Complain
}

async function runLane(options: CrashOptions, report: CrashReport, number: number, untilMs: number): Promise<void> {
  const lane = openLane(options, report, number)
  const mayGoOn = (): boolean => performance.now() < untilMs && report.kills < options.kills
  for (; mayGoOn(); lane.round++) {
    lane.random = createRandom((options.seed * 1000 + number) * 100_000 + lane.round)
    const started = await startAndCheck(lane)
    if (started === null) break
    await loadAndKill(lane, started)
    keepForLater(lane)
    while (lane.random.below(100) < killedStartsPercent && mayGoOn()) await killStart(lane)
  }
  const last = await startAndCheck(lane)
  await last?.server.kill()
  if (report.violations.length === 0 || process.env['CRASH_KEEP'] === undefined) rmSync(lane.base, { recursive: true, force: true })
  else options.say(`kept: ${lane.base}`)
}

function openLane(options: CrashOptions, report: CrashReport, number: number): Lane {
  const base = mkdtempSync(join(realpathSync(tmpdir()), 'svc-crash-'))
  const at = (name: string, mode: number): string => {
    mkdirSync(join(base, name))
    chmodSync(join(base, name), mode)
    return join(base, name)
  }
  chmodSync(base, 0o755)
  const places = { home: at('home', 0o700), sites: at('sites', 0o755), proofs: at('proofs', 0o1777), temporary: at('tmp', 0o1777) }
  const settings = { default_deploy_path: '', script_timeout: '1800', keep_archives: '10', durable_targets: 'true' }
  const told = new Set<string>()
  let count = 0
  const lane: Lane = {
    base, places, report, lane: number, round: 0, moment: 'nothing', runAs: otherUser(), random: createRandom(options.seed),
    model: {
      projects: [], askedProjects: new Set(), settings: createRegister<Record<string, string>>(settings), tags: createRegister<readonly string[]>([]),
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

/** Whose rights a project's scripts and files may have; null: nobody else's here. */
function otherUser(): string | null {
  return process.geteuid?.() === 0 && spawnSync('setpriv', ['--version'], { stdio: 'ignore' }).status === 0 ? 'nobody' : null
}

interface Started {
  server: CrashServer
  client: CrashClient
}

/** A start, and all that must hold after it. Null: there is no server to go on with. */
async function startAndCheck(lane: Lane): Promise<Started | null> {
  const { model, places, complain } = lane
  const server = startCrashServer(lane.base, places)
  const url = await server.listens
  const health = url === null ? null : await awaitHealth(url, sentence => complain('health', sentence))
  if (health === null) {
    complain('start', `the server did not start: ${server.said().slice(-500)}`)
    await server.kill()
    return null
  }
  // At once: from now on no target may be in the middle of a change.
  const trees = new Map<string, Tree>(model.projects.map(({ target }) => [target, readTree(target)]))
  const journals = journalsIn(places.home)
  if (journals.length > 0) complain('health', `health is good while ${journals.length} journals are there`)
  if (lane.round === 0) model.adminToken.found((JSON.parse(readFileSync(join(places.home, 'config.json'), 'utf8')) as { adminToken: string }).adminToken)
  try {
    await checkAll({ client: health.client, model, places, trees, serverPid: server.pid, helpers: lane.helpers, complain })
  } catch (error) {
    complain('answer', `the checks met a fault: ${(error as Error).stack}`)
  }
  return { server, client: health.client }
}

async function loadAndKill(lane: Lane, { server, client }: Started): Promise<void> {
  const { model, places, random, runAs, next } = lane
  const moment = someMoment(random)
  let isOver = false
  let strike = (_delayMs: number): void => {}
  const delayMs = random.below(moment.withinMs + 1)
  const struck = new Promise<void>(resolve => {
    strike = ms => void (ms === 0 ? resolve() : setTimeout(resolve, ms))
  })
  const needs: LoadNeeds = {
    client, model, places, random, runAs, next,
    isOver: () => isOver,
    reached: point => void (point === moment.point && strike(delayMs)),
    complain: sentence => lane.complain('answer', sentence),
    acknowledged: () => void lane.report.acknowledged++
  }
  await renewProjects(lane, needs)
  const stopWatching = watchPoints(places, model.projects.map(({ target }) => target), needs.reached)
  const load = runLoad(needs, { isTokenRound: tokenPoints.has(moment.point ?? ''), isLarge: moment.point === largePoint })
  if (moment.point === undefined) strike(moment.name === stopMoment ? random.below(400) : delayMs)
  let isLate = false
  const late = setTimeout(() => {
    isLate = true
    strike(0)
  }, longestLoadMs)
  await struck
  isOver = true
  if (moment.name === stopMoment) {
    server.stop()
    await sleep(delayMs)
  }
  await server.kill()
  clearTimeout(late)
  stopWatching()
  await load
  noteKill(lane, isLate ? 'too late for its moment' : moment.name, server)
}

/** The projects that the load works on: a small one, a large one, one of another user. */
async function renewProjects({ model, places, round, runAs }: Lane, needs: LoadNeeds): Promise<void> {
  if (round % roundsOfProject === 0) {
    for (const project of model.projects) await removeProject(needs, project)
    const gone = model.projects.filter(({ isThere }) => !isThere.settled())
    model.projects = model.projects.filter(({ isThere }) => isThere.settled())
    for (const { target } of gone) rmSync(target, { recursive: true, force: true })
    rmSync(places.proofs, { recursive: true })
    mkdirSync(places.proofs)
    chmodSync(places.proofs, 0o1777)
  }
  if (model.projects.length >= 3) return
  for (const files of [25, 300]) await addProject(needs, { files })
  await addProject(needs, { files: 25, runAs })
}

function noteKill(lane: Lane, moment: string, server: CrashServer): void {
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
  for (const line of server.said().split('\n').filter(line => /^\S/.test(line))) {
    const head = line.replace(/dep_\w+|"[^"]*"|\/\S+|\d+/g, '…').slice(0, 160)
    report.complaints.set(head, (report.complaints.get(head) ?? 0) + 1)
  }
}

/** A server that is killed while it starts. */
async function killStart(lane: Lane): Promise<void> {
  const server = startCrashServer(lane.base, lane.places)
  const isAfterListening = lane.random.below(2) === 0
  if (isAfterListening) await server.listens
  await sleep(lane.random.below(isAfterListening ? startMs / 3 : startMs))
  await server.kill()
  noteKill(lane, isAfterListening ? 'a start listens' : 'during a start', server)
}

/** With CRASH_KEEP, what the kill left is kept as the next start finds it. */
function keepForLater({ base, places, report }: Lane): void {
  if (process.env['CRASH_KEEP'] === undefined || report.violations.length > 0) return
  const kept = join(base, 'killed')
  rmSync(kept, { recursive: true, force: true })
  for (const name of ['home', 'sites'] as const) cpSync(places[name], join(kept, name), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true, filter: path => !/svc\.sock/.test(path) })
}

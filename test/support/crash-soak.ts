/*
 * Rounds of a crash run: a server starts, everything that must hold is looked at, a load begins, and at a moment that
 * the seed chooses the server is killed; now and then the next start is killed, too.
 */
import { chmodSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkAll } from './crash-checks.js'
import { uploads } from './crash-deploys.js'
import type { CrashClient } from './crash-client.js'
import { backUp, checkRestored, restoreBackup, startWithoutDisks, stepClock } from './crash-events.js'
import { closeLane, keepForLater, noteKill, openLane, type CrashOptions, type Lane } from './crash-lane.js'
import { addProject, removeProject, runLoad } from './crash-load.js'
import { journalsIn, largePoint, someMoment, stopMoment, tokenPoints, watchPoints } from './crash-moments.js'
import type { LoadNeeds } from './crash-needs.js'
import type { CrashReport } from './crash-report.js'
import { awaitHealth, startCrashServer, type CrashServer } from './crash-server.js'
import { emptyDisk } from './full-disk.js'
import { readTree, type Tree } from './crash-site.js'
import type { Model } from './crash-model.js'
import { createRandom } from './random.js'

/** Number of rounds of a project; the next project has its own target. */
const roundsOfProject = 25
/** Time after which a load that has not reached its moment is killed anyway. */
const longestLoadMs = 3000
/** Percentage of starts after a kill that are killed too. */
const killedStartsPercent = 18
/** Usual duration of a start after a kill. */
const startMs = 450

/** Kills servers until the time or the kills are used up. */
export async function soakCrash(options: CrashOptions): Promise<CrashReport> {
  const report: CrashReport = { kills: 0, acknowledged: 0, moments: new Map(), violations: [], complaints: new Map() }
  const untilMs = performance.now() + options.seconds * 1000
  await Promise.all(Array.from({ length: options.lanes }, (_, lane) => runLane(options, report, lane, untilMs)))
  return report
}

async function runLane(options: CrashOptions, report: CrashReport, number: number, untilMs: number): Promise<void> {
  const lane = openLane(options, report, number)
  let replaced: Model | null = null
  const mayGoOn = (): boolean => performance.now() < untilMs && report.kills < options.kills
  for (; mayGoOn(); lane.round++) {
    lane.random = createRandom((options.seed * 1000 + number) * 100_000 + lane.round)
    stepClock(lane)
    const started = await startAndCheck(lane, replaced)
    if (started === null) break
    await backUp(lane)
    await loadAndKill(lane, started)
    keepForLater(lane)
    if (mayGoOn()) await startWithoutDisks(lane)
    replaced = await restoreBackup(lane)
    while (lane.random.below(100) < killedStartsPercent && mayGoOn()) await killStart(lane)
  }
  const last = await startAndCheck(lane, replaced)
  await last?.server.kill()
  closeLane(lane, options)
}

interface Started {
  server: CrashServer
  client: CrashClient
}

/**
 * Starts the server and checks all invariants, of a restored one beside what it has replaced. Returns null if there is no
 * server to continue with.
 */
async function startAndCheck(lane: Lane, replaced: Model | null): Promise<Started | null> {
  const { model, places, complain } = lane
  const server = (await startFull(lane)) ?? startCrashServer(lane.base, places, lane.aheadMs)
  const url = await server.listens
  const health = url === null ? null : await awaitHealth(url, sentence => lane.disk ?? complain('health', sentence))
  if (health === null) {
    complain('start', `the server did not start: ${server.said().slice(-500)}`)
    await server.kill()
    return null
  }
  // At once: from now on no target may be in the middle of a change.
  const projects = [...(replaced?.projects ?? []), ...model.projects]
  const trees = new Map<string, Tree>(projects.map(({ target }) => [target, readTree(target)]))
  if (replaced !== null) checkRestored(lane, replaced, trees)
  const journals = journalsIn(places.home)
  if (journals.length > 0) complain('health', `health is good while ${journals.length} journals are there`)
  if (lane.round === 0)
    model.adminToken.found(
      (JSON.parse(readFileSync(join(places.home, 'config.json'), 'utf8')) as { adminToken: string }).adminToken
    )
  try {
    await checkAll({
      client: health.client,
      model,
      places,
      trees,
      serverPid: server.pid,
      helpers: lane.helpers,
      lost: lane.lost,
      isDiskSmall: lane.disk !== null,
      complain
    })
  } catch (error) {
    complain('answer', `the checks met a fault: ${(error as Error).stack}`)
  }
  return { server, client: health.client }
}

/**
 * A start on a disk that the kill has left full, and that has room again a moment later; null: it does not come so far.
 */
async function startFull({ base, places, disk, random, aheadMs }: Lane): Promise<CrashServer | null> {
  if (disk === null) return null
  const server = startCrashServer(base, places, aheadMs)
  await Promise.race([server.listens, sleep(startMs)])
  await sleep(random.below(startMs))
  emptyDisk(disk)
  if ((await server.listens) !== null && server.isRunning()) return server
  await server.kill()
  return null
}

async function loadAndKill(lane: Lane, { server, client }: Started): Promise<void> {
  const { model, places, random, runAs, next } = lane
  const moment = someMoment(random, lane.disk !== null)
  let isOver = false
  let strike = (_delayMs: number): void => {}
  const delayMs = random.below(moment.withinMs + 1)
  const struck = new Promise<void>(resolve => {
    strike = ms => void (ms === 0 ? resolve() : setTimeout(resolve, ms))
  })
  const needs: LoadNeeds = {
    client,
    model,
    places,
    random,
    runAs,
    next,
    disk: lane.disk,
    isOver: () => isOver,
    reached: point => void (point === moment.point && strike(delayMs)),
    complain: sentence => lane.complain('answer', sentence),
    acknowledged: () => void lane.report.acknowledged++
  }
  await renewProjects(lane, needs)
  const stopWatching = watchPoints(
    places,
    model.projects.map(({ target }) => target),
    needs.reached
  )
  const load = runLoad(needs, {
    isTokenRound: tokenPoints.has(moment.point ?? ''),
    isLarge: moment.point === largePoint
  })
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
async function renewProjects(lane: Lane, needs: LoadNeeds): Promise<void> {
  const { model, places, round, runAs } = lane
  if (round % roundsOfProject === 0) {
    lane.backup = null
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
  // A base for uploads of changes.
  for (const project of model.projects) await uploads(needs, project, [])
}

/** Starts a server that is killed during its start. */
async function killStart(lane: Lane): Promise<void> {
  const server = startCrashServer(lane.base, lane.places, lane.aheadMs)
  const isAfterListening = lane.random.below(2) === 0
  if (isAfterListening) await server.listens
  await sleep(lane.random.below(isAfterListening ? startMs / 3 : startMs))
  await server.kill()
  noteKill(lane, isAfterListening ? 'a start listens' : 'during a start', server)
}

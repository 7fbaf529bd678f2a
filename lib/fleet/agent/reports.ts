/*
 * Tells the hub what has changed: answers to orders, and what is in place. Changes that come together are one report. A
 * report is repeated until the hub has taken it; the hub ignores what it knows already. Without changes, a report says
 * now and then that the node is there.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { AgentReport } from '../../model/fleet-wire.js'
import { fleetLimits } from '../../model/node.js'
import type { DeploymentRow } from '../../model/deployment.js'
import type { Reader } from '../../core/store/database.js'
import { liveDeployment } from '../../core/store/tables/deployments.js'
import { findHubDeployment } from '../../core/store/tables/fleet.js'
import type { LocalDeployer } from './swap.js'

/** The reports of an agent. */
export type Reports = ReturnType<typeof createReports>

export interface ReportsNeeds {
  send(report: AgentReport, signal: AbortSignal): Promise<unknown>
  facts(): Promise<Pick<AgentReport, 'version' | 'freeBytes'>>
  answersOf(projectId: string): AgentReport['answers']
  /** Returns what is in place; null: the project is not one of the hub. */
  liveOf(projectId: string): AgentReport['placements'][number] | null
  everyMs: number
  /** Waits between attempts to send a report, in ms. The last one is repeated. */
  retriesMs?: readonly number[]
  /** Called when a second attempt in a row has failed. */
  failed(error: unknown): void
}

const soonMs = 250
const defaultRetriesMs = [250, 1000, 5000]
/** What a report has besides its answers and placements. */
const frameBytes = 256

/** Creates the reports of an agent. */
export function createReports(needs: ReportsNeeds) {
  const { send, facts, everyMs, retriesMs = defaultRetriesMs, failed } = needs
  /** What has changed, and how often. */
  const dirty = new Map<string, number>()
  let wake = (): void => {}
  let isHurried = false
  let soon: NodeJS.Timeout | undefined

  function hurry(): void {
    clearTimeout(soon)
    soon = undefined
    isHurried = true
    wake()
  }

  function changed(projectId: string, options?: { soon: boolean }): void {
    dirty.set(projectId, (dirty.get(projectId) ?? 0) + 1)
    if (options?.soon !== true) hurry()
    else soon ??= setTimeout(hurry, soonMs).unref()
  }

  /** Waits until something has changed, or a report is due. */
  async function due(signal: AbortSignal): Promise<void> {
    if (isHurried || signal.aborted) return
    await new Promise<void>(resolve => {
      const timer = setTimeout(done, everyMs)
      function done(): void {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        wake = () => {}
        resolve()
      }
      wake = done
      signal.addEventListener('abort', done, { once: true })
    })
  }

  /** Returns a report about as many projects as fit into one, and what it is about. */
  async function compose(): Promise<{ report: AgentReport; about: Map<string, number> }> {
    const report: AgentReport = { ...(await facts()), answers: [], placements: [] }
    const about = new Map<string, number>()
    let bytes = frameBytes
    for (const [projectId, count] of dirty) {
      const answers = needs.answersOf(projectId).map(shortened)
      const live = needs.liveOf(projectId)
      for (const each of [...answers, live]) bytes += bytesOf(each)
      if (bytes > fleetLimits.reportBytes && about.size > 0) break
      report.answers.push(...answers)
      if (live !== null) report.placements.push(live)
      about.set(projectId, count)
    }
    return { report, about }
  }

  async function sendOne(signal: AbortSignal): Promise<void> {
    clearTimeout(soon)
    soon = undefined
    isHurried = false
    const { report, about } = await compose()
    await send(report, signal)
    for (const [projectId, count] of about) if (dirty.get(projectId) === count) dirty.delete(projectId)
    // What did not fit, or has changed meanwhile.
    if (dirty.size > 0 && soon === undefined) isHurried = true
  }

  return {
    /** Notes that a project has changed. `soon`: a report within a quarter of a second is early enough. */
    changed,
    /** Sends reports while the signal is not aborted: first what `projectIds` have. Never rejects. */
    async run(projectIds: Iterable<string>, signal: AbortSignal): Promise<void> {
      for (const projectId of projectIds) changed(projectId)
      hurry()
      let failures = 0
      while (!signal.aborted) {
        await due(signal)
        if (signal.aborted) return
        try {
          await sendOne(signal)
          failures = 0
        } catch (error) {
          if (signal.aborted) return
          // Once is no news: the next attempt follows at once.
          if (failures === 1) failed(error)
          const ms = retriesMs[Math.min(failures++, retriesMs.length - 1)] as number
          await sleep(ms, undefined, { signal }).catch(() => {})
          isHurried = true
        }
      }
    }
  }
}

/** Returns an answer whose output fits into a report. */
function shortened(answer: AgentReport['answers'][number]): AgentReport['answers'][number] {
  if (bytesOf(answer) < fleetLimits.reportBytes / 2) return answer
  // Control characters take six times their size in JSON.
  const cut = (text: string | null): string | null => text?.slice(-fleetLimits.reportBytes / 16) ?? null
  return { ...answer, output: cut(answer.output), error: answer.error?.slice(0, fleetLimits.reportBytes / 32) ?? null }
}

function bytesOf(value: unknown): number {
  return value === null ? 0 : Buffer.byteLength(JSON.stringify(value)) + 1
}

/*
 * What is in place on the node, for the hub: the deployment of the hub whose files are there, and whether they are no
 * longer those: somebody pushed to the node itself, or edited files. Edited files are searched for now and then.
 */

/** What is in place. */
export type Live = ReturnType<typeof createLive>

/** Creates the view of what is in place. */
export function createLive({ store, deployer }: { store: Reader; deployer: LocalDeployer }) {
  /** The deployment after which files were edited, by project. */
  const edited = new Map<string, string>()

  return {
    of(projectId: string): AgentReport['placements'][number] {
      const live = liveDeployment(store, projectId)
      if (live === undefined) return { projectId, liveDeployId: null, liveTree: null, isDrifted: false }
      const made = findHubDeployment(store, live.id)
      return {
        projectId,
        liveDeployId: made?.deployId ?? null,
        liveTree: treeOf(live),
        isDrifted: made === undefined || edited.get(projectId) === live.id
      }
    },
    /** Searches for edited files of a project. Returns whether the answer of `of` has changed. */
    async search(projectId: string, signal: AbortSignal): Promise<boolean> {
      const live = liveDeployment(store, projectId)
      if (live === undefined || deployer.hasRunning(projectId)) return false
      const { count } = await deployer.drift({ projectId, isFull: false, signal })
      const wasEdited = edited.get(projectId) === live.id
      if (count > 0) edited.set(projectId, live.id)
      else edited.delete(projectId)
      return wasEdited !== count > 0
    }
  }
}

/** The tree of the files in place. A deployment that only brought back what differed has no tree of its own. */
function treeOf({ exact, treeSha256 }: DeploymentRow): string | null {
  return exact ? null : treeSha256
}

/*
 * Work on the target of a project outside of deployments: imports, and the maintenance file. It waits in the queue of
 * the project and for the lock of the target, and an extraction in it is all or nothing, like that of a deployment. It
 * has a temporary id, no record and no output, and runs no scripts.
 */
import { notFound, Refusal } from '../base/errors.js'
import { endJournal, extractArchive, extractionLimits, type ExtractOptions } from '../install/unpack/extract.js'
import type { Executors } from '../install/unpack/executors.js'
import type { Extracted } from '../install/unpack/extraction.js'
import type { OpenExtractions } from '../install/unpack/open-extraction.js'
import type { FileJob, FoundFile } from '../install/target-file.js'
import type { Project } from '../model/project.js'
import { findRights, umaskOf, type Rights } from '../proc/identity.js'
import { findProject } from '../store/tables/projects.js'
import type { Ends } from './ends.js'
import { modesOf } from './modes.js'
import type { DeployNeeds } from './needs.js'
import type { Pending } from './pending.js'
import { recordComplete } from './placement.js'
import type { Queue } from './queue.js'
import type { TargetLocks } from './target-locks.js'
import type { DeployFiles } from './files.js'

/** The target of a project while nothing else works on it. */
export interface TargetTurn {
  /** The temporary id of an extraction. */
  id: string
  project: Project
  /** Extracts an archive over the target. */
  extract(archivePath: string, options?: Pick<ExtractOptions, 'reserved' | 'ownership'>): Promise<Extracted>
  /** Must be called after the result of an extraction is recorded. */
  settle(): Promise<void>
  /** Looks at one file of the target, or removes it. */
  file(job: Omit<FileJob, 'target' | 'real'>): Promise<FoundFile>
}

/** A wish for the target of a project. */
export interface TurnRequest {
  projectId: string
  signal?: AbortSignal | undefined
  /** The longest wait for deployments of the project; absent: no limit. */
  maxWaitMs?: number
  /** The beginning of a refusal: `Cannot restore the archive`. */
  cannot: string
}

/** Does work when the target of a project is free. Refuses: 404, 503 `shutting_down`, 409 `deployment_running`. */
export type TargetTurns = <T>(request: TurnRequest, work: (turn: TargetTurn) => Promise<T>) => Promise<T>

/** Dependencies of `createTargetTurns`. */
export interface TargetTurnsNeeds extends DeployNeeds {
  files: DeployFiles
  executors: Executors
  targets: TargetLocks
  pending: Pending
  queue: Queue
  ends: Pick<Ends, 'settle'>
  open: OpenExtractions
  refuseWhenStopping(): void
}

/** Time for one file of a target: its file system may not respond. */
const fileMs = 30_000
const retryAfterSeconds = 5

/** Creates the turns of a server. */
export function createTargetTurns(needs: TargetTurnsNeeds): TargetTurns {
  const { store, home, ids, settings, executors, targets, pending, queue } = needs

  async function run<T>(
    id: string,
    { projectId, signal = new AbortController().signal }: TurnRequest,
    work: (turn: TargetTurn) => Promise<T>
  ): Promise<T> {
    await needs.ends.settle()
    const project = findProject(store, projectId)
    if (project === undefined) throw notFound('Project', projectId)
    const rights = await findRights(project)
    const modes = await modesOf(project)
    const target = await executors.makeTarget(rights, project.deployPath, {
      home: home.directory,
      allowSystemPaths: needs.allowSystemPaths,
      umask: umaskOf(project),
      modes
    })
    const note = await pending.note([id])
    try {
      const real = await targets.hold(id, target, { signal })
      return await work({
        id,
        project,
        extract: (archivePath, options = {}) =>
          extractArchive(executors, {
            ...options,
            archivePath,
            target,
            real,
            limits: extractionLimits(settings),
            isDurable: settings.flag('durable_targets'),
            isAtWork: targets.isHeld,
            onEarlierComplete: earlier => recordComplete(needs, earlier),
            open: needs.open,
            rights,
            umask: umaskOf(project),
            modes,
            deployId: id,
            home,
            signal
          }),
        settle: () => endJournal(home, { deployId: id, target }),
        file: job => workOnTargetFile(executors, rights, { ...job, target, real })
      })
    } finally {
      targets.release(id)
      await note.removeFiles()
    }
  }

  return async (request, work) => {
    needs.refuseWhenStopping()
    const id = ids.id('dep_')
    return new Promise((resolve, reject) => {
      let giveUp: NodeJS.Timeout | undefined
      const { projectId, maxWaitMs, cannot } = request
      const ahead = queue.add({
        key: projectId,
        id,
        run() {
          clearTimeout(giveUp)
          return run(id, request, work).then(resolve, reject)
        },
        async drop() {
          clearTimeout(giveUp)
          const sentence = `${cannot}: the server is shutting down. Try again in a moment`
          reject(new Refusal('unavailable', 'shutting_down', sentence))
        }
      })
      if (maxWaitMs === undefined || ahead === 0) return
      giveUp = setTimeout(() => {
        if (queue.takeBack(id) === undefined) return
        const sentence = `${cannot}: a deployment of this project is queued or running. Try again when it has finished`
        reject(new Refusal('conflict', 'deployment_running', sentence, { retryAfterSeconds }))
      }, maxWaitMs)
    })
  }
}

/**
 * Works on one file of a target with the rights of its project, in the threads for comparisons: those for deployments
 * may be busy for minutes.
 */
export async function workOnTargetFile(
  executors: Pick<Executors, 'comparing'>,
  rights: Rights | null,
  file: FileJob
): Promise<FoundFile> {
  const signal = AbortSignal.timeout(fileMs)
  const outcome = await executors
    .comparing(rights)
    .run({ kind: 'file', file }, signal)
    .catch((error: unknown) => {
      if (error === signal.reason) return null
      throw error
    })
  if (outcome?.kind === 'found') return outcome.found
  if (outcome?.kind === 'failed') throw outcome.error
  const sentence = 'The file system of the target does not respond. Check it, and try again'
  throw new Refusal('unavailable', 'target_stuck', sentence)
}

/*
 * Reads the targets of projects with the project's rights: those of svc, or those of the project's own user (`runAs`)
 * in a helper process.
 */
import type { FileEntry } from '../model/manifest.js'
import type { Project } from '../model/project.js'
import { runHelper } from '../core/proc/helper.js'
import { findRights, type Rights } from '../core/proc/identity.js'
import { type Inspect, listDirectory, measureTree, type OpenedFile, openFile } from '../core/install/browse.js'
import { listedEntries, measuredSizes, openDescriptor, takeOver } from '../core/install/helper-answers.js'
import type { TargetJob } from './target-helper.js'

/** The fields of a project that determine its target and its rights. */
export type Owned = Pick<Project, 'deployPath' | 'runAs' | 'umask'>

export interface MeasureLimits {
  /** Maximum number of entries of one target. */
  maxEntries: number
  /** Time for all targets, in milliseconds. */
  forMs: number
}

/** Read access to the targets of projects. */
export interface Targets {
  /** See `listDirectory` of core/install/browse.ts. Also refuses if the user does not exist any more. */
  list(project: Owned, path: string): Promise<FileEntry[]>
  /** See `openFile` of core/install/browse.ts. */
  open(project: Owned, path: string, inspect: Inspect): Promise<OpenedFile>
  /** Returns the sizes of targets in bytes, as `measureTree` does, in the order of the projects. */
  measure(projects: readonly Owned[], limits: MeasureLimits): Promise<Array<number | null>>
}

const module = new URL('./target-helper.js', import.meta.url)
/** Time that a measurement may take longer than it was given, in ms. */
const lateMs = 10_000

export function createTargets(): Targets {
  return {
    async list(project, path) {
      const rights = await findRights(project)
      if (rights === null) return listDirectory(project.deployPath, path)
      const job: TargetJob = { do: 'list', target: project.deployPath, path }
      return runHelper({ module, rights, job, read: listedEntries })
    },

    async open(project, path, inspect) {
      const rights = await findRights(project)
      if (rights === null) return openFile(project.deployPath, path, inspect)
      const target = project.deployPath
      const job: TargetJob = { do: 'open', target, path }
      const file = await runHelper({ module, rights, job, read: openDescriptor }, (fd, process) =>
        takeOver({ target, path, fd }, process)
      )
      try {
        await inspect(file)
        return file
      } catch (error) {
        await file.handle.close()
        throw error
      }
    },

    async measure(projects, limits) {
      const deadlineMs = performance.now() + limits.forMs
      const sizes = new Map<Owned, number | null>()
      for (const project of projects.filter(({ runAs }) => runAs === null)) {
        sizes.set(project, await measureTree(project.deployPath, { maxEntries: limits.maxEntries, deadlineMs }))
      }
      for (const group of byUser(projects))
        await measureAs(group, { ...limits, forMs: deadlineMs - performance.now() }, sizes)
      return projects.map(project => sizes.get(project) ?? null)
    }
  }
}

/** Groups the projects with an own user by user, so that one process measures all targets of a user. */
function byUser(projects: readonly Owned[]): Owned[][] {
  const groups = new Map<string, Owned[]>()
  for (const project of projects) {
    if (project.runAs === null) continue
    groups.set(project.runAs, [...(groups.get(project.runAs) ?? []), project])
  }
  return [...groups.values()]
}

async function measureAs(
  group: readonly Owned[],
  { maxEntries, forMs }: MeasureLimits,
  sizes: Map<Owned, number | null>
): Promise<void> {
  const rights: Rights | null = await findRights(group[0] as Owned).catch(() => null)
  if (rights === null || forMs <= 0) return
  const job: TargetJob = { do: 'measure', targets: group.map(({ deployPath }) => deployPath), maxEntries, forMs }
  const call = { module, rights, job, read: measuredSizes(group.length), limitMs: forMs + lateMs }
  // A process that somebody has ended leaves the sizes unknown.
  const found = await runHelper(call).catch(() => [])
  group.forEach((project, i) => sizes.set(project, found[i] ?? null))
}

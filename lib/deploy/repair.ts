/*
 * A repair puts back the files of a project that are not as svc put them there, from the archives that are kept. It is a
 * deployment of these files only (exact.ts), without scripts unless they are asked for. Edited files that it replaces go
 * into its before-images, so an undo brings them back.
 */
import { existsSync } from 'node:fs'
import { countOf } from '../base/text.js'
import { invalid, Refusal } from '../base/errors.js'
import type { Project } from '../model/project.js'
import type { OwnedEntry } from '../model/tree.js'
import { findScripted, pathOfSource } from './contents.js'
import type { ExactState, WantedFrom } from './exact-state.js'
import type { DeployFiles } from './files.js'
import type { Verifier } from './verify.js'

/** What a repair puts back. */
export interface RepairGoal {
  paths: readonly string[]
  /** Whether the scripts of the live deployment run. */
  runScripts: boolean
}

/** Dependencies of a repair. */
export interface RepairNeeds {
  files: DeployFiles
  verifier: Pick<Verifier, 'differences'>
}

/** What to look for before a repair. */
export interface Looking {
  /** Null: every file. */
  paths: readonly string[] | null
  signal: AbortSignal
}

/**
 * Returns the paths that a repair would put back. Refuses (`conflict`): nothing_to_repair, no_content, and what a
 * verification refuses; (`invalid`) paths that svc did not put there.
 */
export async function findRepair(needs: RepairNeeds, project: Project, { paths, signal }: Looking): Promise<string[]> {
  const { different, unknown } = await needs.verifier.differences(project, {
    paths,
    isAlone: true,
    withTimes: false,
    signal
  })
  const [foreign] = unknown
  if (foreign !== undefined) throw invalid('paths', `"${foreign}" in "paths" is not a file that svc put there`)
  if (different.length === 0) throw nothingToRepair(project)
  await contentsOf(needs.files, different)
  return different.map(({ path }) => path)
}

/** Returns what a repair must put back now. Refuses (`conflict`, no_content). */
export async function repairState(
  needs: RepairNeeds,
  { project, goal, signal }: { project: Project; goal: RepairGoal; signal: AbortSignal }
): Promise<ExactState> {
  const { paths } = goal
  const { different } = await needs.verifier.differences(project, { paths, isAlone: false, withTimes: false, signal })
  const wanted = await contentsOf(needs.files, different)
  return { wanted, removed: [], directories: [] }
}

/** Returns the line of the output about a repair. */
export function repairSentence({ wanted }: ExactState): string {
  return wanted.length === 0 ? 'every file is as deployed' : `puts back ${countOf(wanted.length, 'file')}`
}

/** Returns the entries with the places of their contents. Refuses (`conflict`, no_content). */
async function contentsOf(files: DeployFiles, entries: readonly OwnedEntry[]): Promise<WantedFrom[]> {
  const wanted = entries.map(({ since, ino: _, ...entry }): WantedFrom => {
    return { ...entry, source: { kind: 'archive', deployId: since } }
  })
  await findScripted(files, wanted, ({ path }) => {
    throw noContent(path, 'what a script made of it was too large to be kept')
  })
  for (const { path, source } of wanted) {
    if (source === null || existsSync(pathOfSource(files, source))) continue
    const what = source.kind === 'archive' ? 'archive' : 'copy of files that scripts have changed'
    throw noContent(path, `the ${what} of deployment ${source.deployId}, which contains it, has been removed`)
  }
  return wanted
}

function noContent(path: string, why: string): Refusal {
  return new Refusal('conflict', 'no_content', `Cannot put "${path}" back: ${why}. Deploy again`)
}

function nothingToRepair({ name }: Project): Refusal {
  return new Refusal('conflict', 'nothing_to_repair', `Nothing to repair: every file of "${name}" is as deployed`)
}

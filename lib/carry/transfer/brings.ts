/*
 * What an import brings that could do harm, for a review before it: paths, scripts, commands and settings. The list of a
 * project is made from its record: what is not listed below by its name appears under `others`, so that nothing new is hidden.
 */

import { createReadStream, createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { maskedAddress } from '../../model/setting.js'
import { pick } from '../../base/fields.js'
import type { BroughtProject, ImportBrings } from '../../model/transfer.js'
import { newProject, type Project, projectReaders, shownFields } from '../../model/project.js'
import { showing } from '../../model/readers.js'
import { linesOf, maxLineBytes } from '../../base/text.js'
import { setIdBits } from '../../core/install/ownership.js'
import type { EarlierFile } from '../../model/manifest.js'
import { changed, type ImportPlan } from './plan.js'

/** Returns what a plan brings. `restored` are the projects whose files are extracted. */
export function bringsOf(
  plan: ImportPlan,
  { restored, isSecret }: { restored: readonly string[]; isSecret: (key: string) => boolean }
): ImportBrings {
  return {
    settings: changed(plan.settings).map(({ id: key, record }) => ({ key, value: isSecret(key) ? null : record })),
    projects: changed(plan.projects).map(({ id, record }) => {
      const variables = plan.variables.filter(({ projectId }) => projectId === id)
      return {
        ...pick(record, shownFields),
        others: othersOf(record),
        variables: variables.map(({ name, value }) => ({ name, value })),
        hasArtifact: restored.includes(id)
      }
    }),
    deploymentScripts: scriptsOf(plan),
    logSources: changed(plan.logSources).map(({ record: { id, projectId, filePath } }) => ({
      id,
      projectId,
      filePath
    })),
    notificationTargets: changed(plan.notificationTargets).map(({ record: { id, name, url } }) => {
      return { id, name, address: maskedAddress(url) }
    })
  }
}

/** Fields that run nothing, open nothing and lead nowhere. */
const harmless: ReadonlySet<keyof Project> = new Set([
  'description',
  'env',
  'categoryId',
  'tagIds',
  'pinned',
  'status',
  'lastDeployAt',
  'createdAt',
  'updatedAt',
  'token'
])

const usual = newProject({ name: '', deployPath: '' }, { id: '', token: '', at: '' })
const withoutSecrets = showing<Project>(projectReaders, 'admin')

function othersOf(record: Project): BroughtProject['others'] {
  const isListed = (key: string): boolean => [...shownFields, ...harmless].includes(key as keyof Project)
  return Object.entries(withoutSecrets(record))
    .filter(([key, value]) => !isListed(key) && JSON.stringify(value) !== JSON.stringify(usual[key as keyof Project]))
    .flatMap(([key, value]) => leavesOf(key, value))
}

function leavesOf(key: string, value: unknown): BroughtProject['others'] {
  if (Array.isArray(value)) return value.flatMap((item, index) => leavesOf(`${key}[${index}]`, item))
  if (typeof value !== 'object' || value === null) return [{ key, value: String(value) }]
  return Object.entries(value).flatMap(([name, each]) => leavesOf(`${key}.${name}`, each))
}

function scriptsOf(plan: ImportPlan): ImportBrings['deploymentScripts'] {
  const found = new Map<string, ImportBrings['deploymentScripts'][number]>()
  for (const { record } of changed(plan.deployments)) {
    const { projectId, scripts } = record.row
    for (const { step, script } of scripts) {
      const key = JSON.stringify([projectId, step, script])
      const known = found.get(key)
      if (known === undefined) found.set(key, { projectId, step, script, deployments: 1 })
      else known.deployments++
    }
  }
  return [...found.values()]
}

/*
 * The lists of files in a package: manifests, and what scripts changed. They come from another machine, perhaps from a stranger. A
 * repair or an exact rollback gives files the permissions of their list, and as root it could give them away. So owners are left out,
 * and the bits with which a file runs with the rights of its owner or group.
 */

/** Stands for a line that svc would not write: readers of the list report it as damaged. */
const brokenLine = '-'

/**
 * Copies a list without owners and such bits. `lineOf` returns a line as it is written, or null if svc would not have
 * written it. Returns whether all lines are such.
 */
export async function copyList(from: string, to: string, lineOf: (value: unknown) => object | null): Promise<boolean> {
  let isWhole = true
  async function* lines(): AsyncGenerator<string> {
    for await (const texts of linesOf(createReadStream(from))) {
      const lines = texts.map(text => harmlessLine(text, lineOf))
      if (lines.includes(brokenLine)) isWhole = false
      yield lines.map(line => `${line}\n`).join('')
    }
  }
  await pipeline(lines, createWriteStream(to, { flags: 'wx', mode: 0o600 }))
  return isWhole
}

function harmlessLine(text: string, lineOf: (value: unknown) => object | null): string {
  let line: object | null
  try {
    line = lineOf(JSON.parse(text))
  } catch {
    return brokenLine
  }
  if (line === null) return brokenLine
  const entry = line as Partial<EarlierFile> & { before?: EarlierFile | null }
  dropRights(entry)
  if (entry.before) dropRights(entry.before)
  const written = JSON.stringify(entry)
  // A reader would take pieces of it for lines.
  return Buffer.byteLength(written) > maxLineBytes ? brokenLine : written
}

function dropRights(entry: Partial<EarlierFile>): void {
  if (entry.mode !== undefined) entry.mode &= ~setIdBits
  delete entry.owner
}

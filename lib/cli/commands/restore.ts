import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { countOf } from '../../base/text.js'
import { Refusal } from '../../base/errors.js'
import { systemClock } from '../../base/clock.js'
import { randomIds } from '../../base/digests.js'
import { formatBytes } from '../../shared/size.js'
import { openBackup, type Backup } from '../../backup/read-backup.js'
import { refuseContents, restoreBackup } from '../../backup/restore.js'
import { type Home, locateHome } from '../../config/home.js'
import { lookAtPlaces } from '../../transfer/verify.js'
import { type Context, defineCommand, exitCodes, usage } from '../command.js'
import { withInterrupts } from '../terminal/prompt.js'
import { runningOwner } from '../client/local.js'
import { sharedOptions } from '../common-options.js'

/** The command `svc restore`. */
export const command = defineCommand({
  operands: {
    file: { required: true, help: 'backup file written by "svc backup"' }
  },
  options: {
    check: { type: 'switch', help: 'only verify that the backup is complete; change nothing' },
    force: { type: 'switch', alias: 'f', help: 'move the existing data directory aside and print where it is' },
    json: sharedOptions.json
  },
  details:
    'Restores the data directory of this machine (SVC_HOME) to its state at the time of the backup. If the backup\n' +
    'is incomplete or anything fails, nothing changes. Stop the server first.\n\n' +
    'The target directories of projects do not change; use "svc rollback" to restore the files of a deployment.\n' +
    'Deployments that were running at the time of the backup are marked as failed at the next start of the\n' +
    'server.',
  examples: [
    ['restore --check svc-backup.zip', 'verify a backup and show its contents'],
    ['restore svc-backup.zip', 'restore to an empty or missing data directory'],
    ['restore --force svc-backup.zip', 'replace an existing data directory, which is kept next to the new one']
  ],
  async run({ options, operands }, context) {
    const { env, cwd, host } = context
    const path = resolve(cwd, operands.file)
    if (
      !(await stat(path).then(
        found => found.isFile(),
        () => false
      ))
    ) {
      throw usage('file', `<file> cannot be "${operands.file}": file not found`)
    }
    const home = locateHome(env, cwd)
    if (!options.check) await refuseEarly(home, options.force)
    return withInterrupts(host, async signal => {
      const backup = await read(context, path, signal)
      try {
        const done = options.check
          ? await check(context, backup, signal)
          : await restore(context, { backup, home, force: options.force, signal })
        await report(context, { backup, ...done, isCheck: options.check, json: options.json })
      } finally {
        backup.close()
      }
      return exitCodes.success
    })
  }
})

/** Makes the checks of the restore early, before gigabytes are read. */
async function refuseEarly({ directory, ...home }: Home, force: boolean): Promise<void> {
  if ((await runningOwner({ directory, ...home })) !== null) {
    throw new Refusal(
      'conflict',
      'in_use',
      `Nothing was restored: an svc process is using "${directory}". Stop it first`
    )
  }
  if (!force) await refuseContents(directory)
}

async function read({ output }: Context, path: string, signal: AbortSignal): Promise<Backup> {
  const bar = output.progress('Reading')
  try {
    const { size } = await stat(path)
    const backup = await openBackup(path, { signal, onProgress: done => bar.update(done, size) })
    bar.clear()
    return backup
  } catch (error) {
    bar.clear()
    throw error
  }
}

interface Done {
  /** The restored data directory; null if nothing was restored. */
  directory: string | null
  /** New path of the previous data directory; null if there was none. */
  aside: string | null
}

async function check({ output }: Context, backup: Backup, signal: AbortSignal): Promise<Done> {
  const bar = output.progress('Checking')
  try {
    await backup.readAll({ signal, onProgress: done => bar.update(done, backup.summary.bytes) })
    bar.end(`Checked ${formatBytes(backup.summary.bytes)}: the backup is complete`)
    return { directory: null, aside: null }
  } catch (error) {
    bar.clear()
    throw error
  }
}

async function restore(
  { output }: Context,
  { backup, home, force, signal }: { backup: Backup; home: Home; force: boolean; signal: AbortSignal }
): Promise<Done> {
  const bar = output.progress('Restoring')
  try {
    const onProgress = (done: number): void => bar.update(done, backup.summary.bytes)
    const { directory } = home
    const { aside } = await restoreBackup(backup, {
      directory,
      force,
      clock: systemClock,
      ids: randomIds,
      onProgress,
      signal
    })
    bar.end(`Restored ${formatBytes(backup.summary.bytes)} in ${countOf(backup.summary.files, 'file')}`)
    return { directory, aside }
  } catch (error) {
    bar.clear()
    throw error
  }
}

interface Report extends Done {
  backup: Backup
  isCheck: boolean
  json: boolean
}

async function report({ output }: Context, { backup, directory, aside, isCheck, json }: Report): Promise<void> {
  const { summary, database } = backup
  const { projects, deployments, missingArchives } = database
  const places = await lookAtPlaces(projects)
  const missingTargets = projects.filter(({ deployPath }) => places.get(deployPath) === 'missing')
  if (json) {
    const counts = { projects: projects.length, deployments }
    return output.json({ directory, aside, backup: summary, ...counts, missingArchives, missingTargets })
  }
  output.print(
    `Backup of ${summary.directory} on ${summary.host}, created at ${summary.createdAt} by svc ${summary.version}`
  )
  output.print(
    `${countOf(projects.length, 'project')}, ${countOf(deployments, 'deployment')}, ${countOf(summary.files, 'file')}, ${formatBytes(summary.bytes)}`
  )
  if (aside !== null) output.print(`The previous data directory was moved to ${aside}`)
  if (directory !== null) output.print(`Data directory: ${directory}`)
  for (const note of summary.notes) output.warn(`not in the backup: ${note}`)
  for (const id of missingArchives)
    output.warn(`the archive of deployment ${id} is not in the backup: you cannot roll back to it`)
  for (const { id, name, deployPath } of missingTargets) {
    output.warn(
      `the target directory of "${name}", ${deployPath}, does not exist. Deploy again with "svc push" or "svc rollback ${id}"`
    )
  }
  if (!isCheck) output.note('Start the server with "svc serve".')
}

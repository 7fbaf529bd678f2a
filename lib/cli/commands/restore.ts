import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { countOf } from '../../base/count.js'
import { Refusal } from '../../base/refusal.js'
import { systemClock } from '../../base/clock.js'
import { randomIds } from '../../base/ids.js'
import { formatBytes } from '../../base/size.js'
import { openBackup, type Backup } from '../../backup/read-backup.js'
import { refuseContents, restoreBackup } from '../../backup/restore.js'
import { locateHome, type Home } from '../../config/home.js'
import { lookAtPlaces } from '../../transfer/verify.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { withInterrupts } from '../interrupts.js'
import { runningOwner } from '../local.js'
import { sharedOptions } from '../common-options.js'

export const command = defineCommand({
  operands: {
    file: { required: true, help: 'the backup that "svc backup" wrote' }
  },
  options: {
    check: { type: 'switch', help: 'only say whether the backup is whole; change nothing' },
    force: { type: 'switch', alias: 'f', help: 'put aside what the data directory holds; where to is printed' },
    json: sharedOptions.json
  },
  details:
    'Makes the data directory of this machine (SVC_HOME) what it was when the backup was made: all of it or, where the\n' +
    'backup is not whole or something fails, nothing. No server may run on it. What lies in the deployPaths is left as it\n' +
    'is: "svc rollback" brings the files of a deployment back. A deployment that ran then has failed at the next start.',
  examples: [
    ['restore --check svc-backup.zip', 'see whether it is whole, and what it holds'],
    ['restore svc-backup.zip', 'into a data directory that is empty, or not there'],
    ['restore --force svc-backup.zip', 'in place of what is there, which is kept beside it']
  ],
  async run({ options, operands }, context) {
    const { env, cwd, host } = context
    const path = resolve(cwd, operands.file)
    if (!(await stat(path).then(found => found.isFile(), () => false))) {
      throw usage('file', `<file> cannot be "${operands.file}": there is no such file`)
    }
    const home = locateHome(env, cwd)
    if (!options.check) await refuseEarly(home, options.force)
    return withInterrupts(host, async signal => {
      const backup = await read(context, path, signal)
      try {
        const done = options.check ? await check(context, backup, signal) : await restore(context, { backup, home, force: options.force, signal })
        await report(context, { backup, ...done, isCheck: options.check, json: options.json })
      } finally {
        backup.close()
      }
      return exitCodes.success
    })
  }
})

/** What would be refused at the end is refused before gigabytes are read. */
async function refuseEarly({ directory, ...home }: Home, force: boolean): Promise<void> {
  if ((await runningOwner({ directory, ...home })) !== null) {
    throw new Refusal('conflict', 'in_use', `Nothing was restored: a svc process uses "${directory}"; stop it first`)
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
  /** null: nothing was restored. */
  directory: string | null
  /** Where what was there is now. */
  aside: string | null
}

async function check({ output }: Context, backup: Backup, signal: AbortSignal): Promise<Done> {
  const bar = output.progress('Checking')
  try {
    await backup.readAll({ signal, onProgress: done => bar.update(done, backup.summary.bytes) })
    bar.end(`Checked ${formatBytes(backup.summary.bytes)}: the backup is whole`)
    return { directory: null, aside: null }
  } catch (error) {
    bar.clear()
    throw error
  }
}

async function restore(
  { output }: Context, { backup, home, force, signal }: { backup: Backup; home: Home; force: boolean; signal: AbortSignal }
): Promise<Done> {
  const bar = output.progress('Restoring')
  try {
    const onProgress = (done: number): void => bar.update(done, backup.summary.bytes)
    const { directory } = home
    const { aside } = await restoreBackup(backup, { directory, force, clock: systemClock, ids: randomIds, onProgress, signal })
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
  output.print(`Made at ${summary.createdAt} by svc ${summary.version} on ${summary.host}, of ${summary.directory}`)
  output.print(`${countOf(projects.length, 'project')}, ${countOf(deployments, 'deployment')}, ${countOf(summary.files, 'file')}, ${formatBytes(summary.bytes)}`)
  if (aside !== null) output.print(`What was there before is in ${aside}`)
  if (directory !== null) output.print(`The data directory is ${directory}`)
  for (const note of summary.notes) output.warn(`not in the backup: ${note}`)
  for (const id of missingArchives) output.warn(`the archive of deployment ${id} is not in the backup: it cannot be rolled back to`)
  for (const { id, name, deployPath } of missingTargets) {
    output.warn(`the deployPath of "${name}", ${deployPath}, is not on this machine: deploy again ("svc push", or "svc rollback ${id}")`)
  }
  if (!isCheck) output.note('Start the server with "svc serve".')
}

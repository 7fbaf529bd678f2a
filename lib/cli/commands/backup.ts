import { realpath, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { refuseContents, type Restored, restoreBackup } from '../../carry/backup/restore.js'
import { type Backup, openBackup } from '../../carry/backup/read.js'
import { sealFile, sealStream } from '../../carry/backup/format.js'
import { systemClock } from '../../base/clock.js'
import { randomIds } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { isInside, syncDirectory, throughPart } from '../../base/files.js'
import { countOf } from '../../base/text.js'
import { type Home, locateHome } from '../../base/config/home.js'
import { formatBytes } from '../../base/shared/api.js'
import { lookAtPlaces } from '../../carry/transfer/verify.js'
import type { Client } from '../client/client.js'
import { downloadZip, explain, openZip } from '../client/files.js'
import { runningOwner } from '../client/local.js'
import { requireDatabase, withLocalApi } from '../client/opened.js'
import { type Context, defineCommand, exitCodes, type Family, toggle, usage } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { withProgress } from '../terminal/output.js'
import { humanDuration } from '../terminal/words.js'
import { withInterrupts } from '../terminal/prompt.js'

/** The commands for backups of the data directory. */
export const commands = {
  backup: defineCommand({
    operands: { file: { required: true, help: 'backup file to write; "-" writes to standard output' } },
    options: {
      force: toggle('replace an existing file, once the new one is complete', { alias: 'f' }),
      json: sharedOptions.json
    },
    details:
      'Backs up everything in the data directory of this machine (SVC_HOME) at one moment, whether the server is\n' +
      'running or not: database, configuration, archives and outputs. Deployed files outside of the data directory\n' +
      'are not included. The backup contains every token, including the admin token. Only you can read the file;\n' +
      'keep it that way. svc reads the file back and checks it before it gives it its name. Use "svc restore" to\n' +
      'restore it, and "svc export" to move projects between servers.',
    examples: [
      ['backup /var/backups/svc.zip --force', 'back up every night, replacing the last backup'],
      ['backup - | ssh vault "cat > svc.zip"', 'store the backup on another machine only']
    ],
    async run({ options, operands }, context) {
      const { env, cwd, host } = context
      const home = locateHome(env, cwd)
      await requireDatabase(home, 'back up')
      if (operands.file === '-') return toStandardOutput(context, home, options.json)
      const path = resolve(cwd, operands.file)
      await refusePlace(path, home, options.force)
      const { summary, database, bytes } = await withInterrupts(host, signal =>
        withLocalApi(context, home, ({ client }) => write(context, { client, path, signal }))
      )
      for (const note of summary.notes) context.output.warn(note)
      for (const id of database.missingArchives) context.output.warn(`the archive of deployment ${id} is missing`)
      context.output.result(options.json, { path, fileBytes: bytes, ...summary }, path)
      return exitCodes.success
    }
  }),

  restore: defineCommand({
    operands: { file: { required: true, help: 'backup file written by "svc backup"' } },
    options: {
      check: toggle('only verify that the backup is complete; change nothing'),
      force: toggle('move the existing data directory aside and print where it is', { alias: 'f' }),
      json: sharedOptions.json
    },
    details:
      'Restores the data directory of this machine (SVC_HOME) to its state at the time of the backup. If the backup\n' +
      'is incomplete or anything fails, nothing changes. Stop the server first.\n\n' +
      'The target directories of projects do not change; "svc files --repair" puts the files of a project there again.\n' +
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
      )
        throw usage('file', `<file> cannot be "${operands.file}": file not found`)
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
} satisfies Family

const nothing = 'Nothing was backed up'
const what = { route: '/api/backup', query: new URLSearchParams(), what: 'backup', nothing }

async function refusePlace(path: string, home: Home, force: boolean): Promise<void> {
  const directory = dirname(path)
  const [place, homePlace] = await Promise.all(
    [directory, home.directory].map(path => realpath(path).catch(() => null))
  )
  if (!place) throw usage('file', `<file> cannot be "${path}": directory not found: "${directory}"`)
  if (homePlace && isInside(homePlace, place))
    throw usage('file', `<file> cannot be "${path}": it is inside the data directory. Choose a path outside of it`)
  const found = await stat(path).catch(() => null)
  if (found?.isDirectory()) throw usage('file', `<file> cannot be "${path}": it is a directory`)
  if (found === null || force) return
  throw new Refusal(
    'conflict',
    'file_exists',
    `${nothing}: "${path}" already exists. Choose another name, or use --force to replace it`
  )
}

interface Writing {
  client: Client
  path: string
  signal: AbortSignal
}

interface Written extends Pick<Backup, 'summary' | 'database'> {
  /** Size of the file in bytes. */
  bytes: number
}

/** Writes the backup to a temporary file next to `path`, and renames it after reading it back. */
async function write({ output }: Context, { client, path, signal }: Writing): Promise<Written> {
  const startedAtMs = Date.now()
  let bar = output.progress('Backing up')
  try {
    const written = await throughPart(path, async part => {
      await downloadZip({ ...what, client, bar, signal }, part)
      bar.clear()
      bar = output.progress('Checking')
      return readBack(part, { signal, onProgress: (done, all) => bar.update(done, all) })
    })
    await syncDirectory(dirname(path))
    const { projects, deployments } = written.database
    const contents = `${countOf(projects.length, 'project')}, ${countOf(deployments, 'deployment')}, ${countOf(written.summary.files, 'file')}`
    bar.end(
      `Backed up ${contents}: ${formatBytes(written.bytes)} in ${humanDuration(Date.now() - startedAtMs)}, read back and verified`
    )
    return written
  } catch (error) {
    bar.clear()
    signal.throwIfAborted()
    throw explain(error, what)
  }
}

async function readBack(
  path: string,
  { signal, onProgress }: { signal: AbortSignal; onProgress(done: number, all: number): void }
): Promise<Written> {
  const { size } = await stat(path)
  await sealFile(path, { signal, onProgress: done => onProgress(done, size * 2) })
  const backup = await openBackup(path, { isSealed: true, signal })
  try {
    await backup.readAll({ signal, onProgress: done => onProgress(size + done, size + backup.summary.bytes) })
    return { summary: backup.summary, database: backup.database, bytes: (await stat(path)).size }
  } finally {
    backup.close()
  }
}

async function toStandardOutput(context: Context, home: Home, json: boolean): Promise<number> {
  const { host, output } = context
  if (json) throw usage('--json', '--json cannot be used with "-": the backup itself goes to standard output')
  if (host.stdout.isTTY)
    throw usage('file', '<file> cannot be "-" here: standard output is a terminal. Redirect it to a file or a program')
  await withInterrupts(host, signal =>
    withLocalApi(context, home, async ({ client }) => {
      const bar = output.progress('Backing up')
      try {
        let bytes = 0
        for await (const piece of sealStream(await openZip({ ...what, client, bar, signal }))) {
          await output.write(piece)
          bytes += piece.length
          bar.update(bytes, bytes)
        }
        bar.end(`Backed up ${formatBytes(bytes)}. Use "svc restore --check" to verify that it arrived completely`)
      } catch (error) {
        bar.clear()
        signal.throwIfAborted()
        throw explain(error, what)
      }
    })
  )
  return exitCodes.success
}

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
  return await withProgress(output.progress('Reading'), async bar => {
    const { size } = await stat(path)
    const backup = await openBackup(path, { signal, onProgress: done => bar.update(done, size) })
    bar.clear()
    return backup
  })
}

interface Done {
  /** The restored data directory; null if nothing was restored. */
  directory: string | null
  /** New path of the previous data directory; null if there was none. */
  aside: string | null
  /** What it kept of the replaced data directory; null if there was no database that can be read. */
  kept: Restored['kept']
  signers: boolean
}

async function check({ output }: Context, backup: Backup, signal: AbortSignal): Promise<Done> {
  return await withProgress(output.progress('Checking'), async bar => {
    await backup.readAll({ signal, onProgress: done => bar.update(done, backup.summary.bytes) })
    bar.end(`Checked ${formatBytes(backup.summary.bytes)}: the backup is complete`)
    return { directory: null, aside: null, kept: null, signers: false }
  })
}

async function restore(
  { output }: Context,
  { backup, home, force, signal }: { backup: Backup; home: Home; force: boolean; signal: AbortSignal }
): Promise<Done> {
  return await withProgress(output.progress('Restoring'), async bar => {
    const onProgress = (done: number): void => bar.update(done, backup.summary.bytes)
    const { directory } = home
    const restored = await restoreBackup(backup, {
      directory,
      force,
      clock: systemClock,
      ids: randomIds,
      onProgress,
      signal
    })
    bar.end(`Restored ${formatBytes(backup.summary.bytes)} in ${countOf(backup.summary.files, 'file')}`)
    return { directory, ...restored }
  })
}

interface Report extends Done {
  backup: Backup
  isCheck: boolean
  json: boolean
}

/** Says which keys are trusted again, and which are not. */
function reportKeys({ output }: Context, { backup, kept, signers }: Report): void {
  const { signingKeys } = backup.database
  if (signers)
    output.warn('keys/allowed_signers was left as it was in this data directory: the one in the backup is another')
  if (signingKeys.length === 0) return
  if (kept !== null) {
    const revoked = kept.revoked.length
    if (revoked > 0) output.note(`${countOf(revoked, 'key')} revoked before the restore stay so.`)
    return
  }
  output.warn(
    `the backup trusts ${countOf(signingKeys.length, 'key')} to sign releases: ${signingKeys.join(', ')}. It does not know what was ` +
      `revoked after ${backup.summary.createdAt}: look at "svc keys list", and revoke again with "svc keys revoke"`
  )
}

async function report(context: Context, given: Report): Promise<void> {
  const { output } = context
  const { backup, directory, aside, isCheck, json } = given
  const { summary, database } = backup
  const { projects, deployments, missingArchives } = database
  const places = await lookAtPlaces(projects)
  const missingTargets = projects
    .filter(({ deployPath, nodes }) => nodes === 0 && places.get(deployPath) === 'missing')
    .map(({ id, name, deployPath }) => ({ id, name, deployPath }))
  if (json) {
    const counts = { projects: projects.length, deployments }
    const keys = { trustedKeys: database.signingKeys, keptRevocations: given.kept?.revoked.length ?? null }
    return output.json({ directory, aside, backup: summary, ...counts, missingArchives, missingTargets, ...keys })
  }
  output.print(
    `Backup of ${summary.directory} on ${summary.host}, created at ${summary.createdAt} by svc ${summary.version}`
  )
  output.print(
    `${countOf(projects.length, 'project')}, ${countOf(deployments, 'deployment')}, ${countOf(summary.files, 'file')}, ${formatBytes(summary.bytes)}`
  )
  if (aside !== null) output.print(`The previous data directory was moved to ${aside}`)
  if (directory !== null) output.print(`Data directory: ${directory}`)
  if (directory !== null) reportKeys(context, given)
  for (const note of summary.notes) output.warn(`not in the backup: ${note}`)
  for (const id of missingArchives)
    output.warn(`the archive of deployment ${id} is not in the backup: you cannot roll back to it`)
  for (const { id, name, deployPath } of missingTargets) {
    output.warn(
      `the target directory of "${name}", ${deployPath}, does not exist. Deploy again with "svc push" or "svc files ${id} --repair"`
    )
  }
  if (!isCheck) output.note('Start the server with "svc serve".')
}

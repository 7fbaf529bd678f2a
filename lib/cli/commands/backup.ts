import { realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { countOf } from '../../base/text.js'
import { Refusal } from '../../base/errors.js'
import { isInside, syncDirectory } from '../../base/files.js'
import { formatBytes } from '../../shared/size.js'
import { openBackup, type Backup } from '../../backup/read-backup.js'
import { sealFile, sealStream } from '../../backup/seal.js'
import { type Home, locateHome } from '../../config/home.js'
import { type Context, defineCommand, exitCodes, usage } from '../command.js'
import type { Client } from '../client/client.js'
import { withInterrupts } from '../terminal/prompt.js'
import { requireDatabase, withLocalApi } from '../client/local.js'
import { sharedOptions } from '../common-options.js'
import { humanDuration } from '../terminal/words.js'
import { downloadZip, explain, openZip } from '../client/files.js'

/** The command `svc backup`. */
export const command = defineCommand({
  operands: {
    file: { required: true, help: 'backup file to write; "-" writes to standard output' }
  },
  options: {
    force: { type: 'switch', alias: 'f', help: 'replace an existing file, once the new one is complete' },
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
    if (options.json) context.output.json({ path, fileBytes: bytes, ...summary })
    else context.output.print(path)
    return exitCodes.success
  }
})

const nothing = 'Nothing was backed up'
const what = { route: '/api/backup', query: new URLSearchParams(), what: 'backup', nothing }

async function refusePlace(path: string, home: Home, force: boolean): Promise<void> {
  const directory = dirname(path)
  const [place, homePlace] = await Promise.all(
    [directory, home.directory].map(path => realpath(path).catch(() => null))
  )
  if (!place) throw usage('file', `<file> cannot be "${path}": directory not found: "${directory}"`)
  if (homePlace && isInside(homePlace, place)) {
    throw usage('file', `<file> cannot be "${path}": it is inside the data directory. Choose a path outside of it`)
  }
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
  const waiting = `${path}.part`
  const startedAtMs = Date.now()
  let bar = output.progress('Backing up')
  try {
    await rm(waiting, { force: true })
    await writeFile(waiting, '', { mode: 0o600, flag: 'wx' })
    await downloadZip({ ...what, client, bar, signal }, waiting)
    bar.clear()
    bar = output.progress('Checking')
    const written = await check(waiting, { signal, onProgress: (done, all) => bar.update(done, all) })
    await rename(waiting, path)
    await syncDirectory(dirname(path))
    const { projects, deployments } = written.database
    const contents = `${countOf(projects.length, 'project')}, ${countOf(deployments, 'deployment')}, ${countOf(written.summary.files, 'file')}`
    bar.end(
      `Backed up ${contents}: ${formatBytes(written.bytes)} in ${humanDuration(Date.now() - startedAtMs)}, read back and verified`
    )
    return written
  } catch (error) {
    bar.clear()
    await rm(waiting, { force: true })
    signal.throwIfAborted()
    throw explain(error, what)
  }
}

async function check(
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

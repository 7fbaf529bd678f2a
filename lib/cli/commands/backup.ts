import { existsSync } from 'node:fs'
import { open, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { countOf } from '../../base/count.js'
import { Refusal } from '../../base/refusal.js'
import { isInside } from '../../base/paths.js'
import { formatBytes } from '../../base/size.js'
import { openBackup } from '../../backup/read-backup.js'
import type { Backup } from '../../backup/read-backup.js'
import { sealFile, sealStream } from '../../backup/seal.js'
import { locateHome, type Home } from '../../config/home.js'
import { usage } from '../args.js'
import type { Client } from '../client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { withInterrupts } from '../interrupts.js'
import { runningOwner, withLocalApi } from '../local.js'
import { sharedOptions } from '../common-options.js'
import { humanDuration } from '../units.js'
import { downloadZip, explain, openZip } from '../zip-download.js'

export const command = defineCommand({
  operands: {
    file: { required: true, help: 'the backup to write; "-" writes it to standard output' }
  },
  options: {
    force: { type: 'switch', alias: 'f', help: 'write over a file that is there, once the new one is whole' },
    json: sharedOptions.json
  },
  details:
    'Everything in the data directory of this machine (SVC_HOME), as it is at one moment, whether its server runs or not:\n' +
    'database, configuration, archives, outputs. What the deployments put in place elsewhere is not in it. The file holds\n' +
    'every token, the admin token too: it is readable for you only, and should stay so. It is read back and checked before\n' +
    'it gets its name. "svc restore" brings it back; "svc export" moves projects between servers.',
  examples: [
    ['backup /var/backups/svc.zip --force', 'every night, in place of the last one'],
    ['backup - | ssh vault "cat > svc.zip"', 'without a copy on this machine']
  ],
  async run({ options, operands }, context) {
    const { env, cwd, host } = context
    const home = locateHome(env, cwd)
    if (!existsSync(home.database) && (await runningOwner(home)) === null) throw nothingThere(home.directory)
    if (operands.file === '-') return toStandardOutput(context, home, options.json)
    const path = resolve(cwd, operands.file)
    await refusePlace(path, home, options.force)
    const { summary, database, bytes } = await withInterrupts(host, signal =>
      withLocalApi(context, home, ({ client }) => write(context, { client, path, signal })))
    for (const note of summary.notes) context.output.warn(note)
    for (const id of database.missingArchives) context.output.warn(`the archive of deployment ${id} was not there`)
    if (options.json) context.output.json({ path, fileBytes: bytes, ...summary })
    else context.output.print(path)
    return exitCodes.success
  }
})

const nothing = 'Nothing was backed up'
const what = { route: '/api/backup', query: new URLSearchParams(), what: 'backup', nothing }

function nothingThere(directory: string): Refusal {
  const sentence = `There is nothing to back up: there is no database in "${directory}"; choose the data directory with SVC_HOME`
  return new Refusal('not_found', 'no_database', sentence)
}

async function refusePlace(path: string, home: Home, force: boolean): Promise<void> {
  const directory = dirname(path)
  const [place, homePlace] = await Promise.all([directory, home.directory].map(path => realpath(path).catch(() => null)))
  if (!place) throw usage('file', `<file> cannot be "${path}": there is no directory "${directory}"`)
  if (homePlace && isInside(homePlace, place)) {
    throw usage('file', `<file> cannot be "${path}": it is in the data directory itself, and would be lost with it`)
  }
  const found = await stat(path).catch(() => null)
  if (found?.isDirectory()) throw usage('file', `<file> cannot be "${path}": it is a directory`)
  if (found === null || force) return
  throw new Refusal('conflict', 'file_exists', `${nothing}: "${path}" is there already; choose another name, or give --force to replace it`)
}

interface Writing {
  client: Client
  path: string
  signal: AbortSignal
}

interface Written extends Pick<Backup, 'summary' | 'database'> {
  /** Of the file. */
  bytes: number
}

/** Into a file beside it, which takes the name once it is whole, and was read back. */
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
    const holds = `${countOf(projects.length, 'project')}, ${countOf(deployments, 'deployment')}, ${countOf(written.summary.files, 'file')}`
    bar.end(`Backed up ${holds}: ${formatBytes(written.bytes)} in ${humanDuration(Date.now() - startedAtMs)}, read back and whole`)
    return written
  } catch (error) {
    bar.clear()
    await rm(waiting, { force: true })
    signal.throwIfAborted()
    throw explain(error, what)
  }
}

async function check(path: string, { signal, onProgress }: { signal: AbortSignal; onProgress(done: number, all: number): void }): Promise<Written> {
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
  if (json) throw usage('--json', '--json cannot be used with "-": standard output is the backup')
  if (host.stdout.isTTY) throw usage('file', '<file> cannot be "-" here: standard output is a terminal; send it to a file or a program')
  await withInterrupts(host, signal => withLocalApi(context, home, async ({ client }) => {
    const bar = output.progress('Backing up')
    try {
      let bytes = 0
      for await (const piece of sealStream(await openZip({ ...what, client, bar, signal }))) {
        await output.write(piece)
        bytes += piece.length
        bar.update(bytes, bytes)
      }
      bar.end(`Backed up: ${formatBytes(bytes)}; "svc restore --check" says whether it has arrived whole`)
    } catch (error) {
      bar.clear()
      signal.throwIfAborted()
      throw explain(error, what)
    }
  }))
  return exitCodes.success
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r').catch(() => null)
  await handle?.sync().catch(() => {})
  await handle?.close()
}

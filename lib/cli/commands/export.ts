import { createWriteStream, existsSync } from 'node:fs'
import { rename, rm, stat, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Refusal } from '../../base/refusal.js'
import { formatBytes } from '../../base/size.js'
import { locateHome } from '../../config/home.js'
import type { Manifest } from '../../transfer/package.js'
import { openPackage } from '../../transfer/read-package.js'
import type { Client } from '../client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { withInterrupts } from '../interrupts.js'
import { runningOwner, withLocalApi } from '../local.js'
import type { Progress } from '../progress.js'
import { packOptions, sharedOptions } from '../common-options.js'
import { readNdjson } from '../streams.js'
import { humanDuration } from '../units.js'

/** Until large targets are packed. */
const exportLimitMs = 24 * 60 * 60_000

export const command = defineCommand({
  operands: {},
  options: {
    out: { type: 'text', value: 'file', help: 'the package; default ./svc-export-<timestamp>.zip' },
    projects: { type: 'text', value: 'ids', help: 'only these projects, with commas between them' },
    'include-artifacts': { type: 'switch', default: true, help: 'leave out what was deployed' },
    'include-logs': { type: 'switch', default: true, help: 'leave out the deployments and their outputs' },
    recent: { type: 'count', value: 'number', help: 'of each project only so many deployments, the newest' },
    ignore: { ...packOptions.ignore, help: 'leave these files out of targets that are packed' },
    'ignore-builtin': packOptions['ignore-builtin'],
    json: sharedOptions.json
  },
  details:
    'Works on the data directory of this machine (SVC_HOME), whether its server runs or not. The package holds tokens:\n' +
    'it is readable for you only, and should stay so.\n\n' +
    'Of each project it has the archive of the newest successful deployment. Where none is kept, what lies in the\n' +
    'target is packed, and only there --ignore and --no-ignore-builtin count.',
  examples: [
    ['export', 'everything, into the current directory'],
    ['export --projects proj_abcdefghijklmnop --no-include-logs --out shop.zip', 'one project as it is now']
  ],
  async run({ options }, context) {
    const { env, cwd, host } = context
    const home = locateHome(env, cwd)
    const at = new Date().toISOString().slice(0, 19).replaceAll(':', '-')
    const path = resolve(cwd, options.out ?? `svc-export-${at}.zip`)
    if (!existsSync(home.database) && (await runningOwner(home)) === null) throw nothingThere(home.directory)
    const query = new URLSearchParams()
    if (options.projects !== undefined) query.set('projects', options.projects)
    if (options.recent !== undefined) query.set('recent', String(options.recent))
    query.set('artifacts', String(options['include-artifacts']))
    query.set('logs', String(options['include-logs']))
    query.set('ignoreBuiltin', String(options['ignore-builtin']))
    for (const pattern of options.ignore) query.append('ignore', pattern)
    const manifest = await withInterrupts(host, signal =>
      withLocalApi(context, home, ({ client }) => download(context, { client, path, query, signal })))
    for (const note of manifest.notes) context.output.warn(note)
    if (options.json) context.output.json({ path, ...manifest })
    else context.output.print(path)
    return exitCodes.success
  }
})

function nothingThere(directory: string): Refusal {
  const sentence = `There is nothing to export: there is no database in "${directory}"; choose the data directory with SVC_HOME`
  return new Refusal('not_found', 'no_database', sentence)
}

interface Download {
  client: Client
  path: string
  query: URLSearchParams
  signal: AbortSignal
}

/**
 * Into a file beside it, which takes the name once it is whole. The server writes it itself where it can see it: bytes
 * that go through a socket take several times as long (bench/export).
 */
async function download({ output }: Context, download: Download): Promise<Manifest> {
  const { path, signal } = download
  const waiting = `${path}.part`
  const startedAtMs = Date.now()
  const bar = output.progress('Exporting')
  try {
    await writeFile(waiting, '', { mode: 0o600 })
    await letWrite(download, waiting, bar).catch(async (error: unknown) => {
      if (!(error instanceof Refusal) || error.code !== 'cannot_write_there') throw error
      await receive(download, waiting, bar)
    })
    const manifest = await readManifest(waiting)
    await rename(waiting, path)
    const { projectIds, deploymentCount, artifacts } = manifest
    const what = [count(projectIds.length, 'project'), count(deploymentCount, 'deployment'), count(artifacts.length, 'artifact')]
    const { size } = await stat(path)
    bar.end(`Exported ${what.join(', ')}: ${formatBytes(size)} in ${humanDuration(Date.now() - startedAtMs)}`)
    return manifest
  } catch (error) {
    bar.clear()
    await rm(waiting, { force: true })
    signal.throwIfAborted()
    throw explain(error)
  }
}

async function letWrite({ client, query, signal }: Download, waiting: string, bar: Progress): Promise<void> {
  const asked = new URLSearchParams(query)
  asked.set('to', waiting)
  const path = `/api/migration/export?${asked}`
  const answer = await client.open({ path, accept: 'application/x-ndjson', answerLimitMs: exportLimitMs, signal })
  let expected = 0
  for await (const { event, expectedBytes, bytes, error } of readNdjson(answer)) {
    if (event === 'begin') expected = Number(expectedBytes)
    else if (event === 'progress') bar.update(Number(bytes), Math.max(Number(bytes), expected))
    else if (event === 'error') throw new Refusal('unavailable', 'export_failed', `Nothing was exported: ${String(error)}`)
    else if (event === 'done') return
  }
  throw new Refusal('unavailable', 'export_broken', 'The export broke off before its end')
}

async function receive({ client, query, signal }: Download, waiting: string, bar: Progress): Promise<void> {
  const path = `/api/migration/export?${query}`
  const answer = await client.open({ path, accept: 'application/zip', answerLimitMs: exportLimitMs, signal })
  const expected = Number(answer.headers['x-svc-expected-bytes'] ?? 0)
  let bytes = 0
  await pipeline(
    answer,
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        bytes += chunk.length
        bar.update(bytes, Math.max(bytes, expected))
        yield chunk
      }
    },
    createWriteStream(waiting, { highWaterMark: 1024 * 1024 }),
    { signal }
  )
}

/** A package that breaks off has no table of contents: what can be opened is whole. */
async function readManifest(path: string): Promise<Manifest> {
  const written = await openPackage(path)
  written.close()
  return written.manifest as unknown as Manifest
}

function explain(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ECONNRESET' && code !== 'ERR_STREAM_PREMATURE_CLOSE') return error
  const sentence = 'The export broke off: a file could not be read, or the server stopped; its output says which'
  return new Refusal('unavailable', 'export_broken', sentence, { cause: error })
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

import { existsSync } from 'node:fs'
import { rename, rm, stat, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { countOf } from '../../base/count.js'
import { Refusal } from '../../base/refusal.js'
import { formatBytes } from '../../base/size.js'
import { locateHome } from '../../config/home.js'
import type { Manifest } from '../../transfer/package.js'
import { openPackage } from '../../transfer/read-package.js'
import type { Client } from '../client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { withInterrupts } from '../interrupts.js'
import { runningOwner, withLocalApi } from '../local.js'
import { packOptions, sharedOptions } from '../common-options.js'
import { humanDuration } from '../units.js'
import { splitList } from '../lists.js'
import { downloadZip } from '../zip-download.js'

export const command = defineCommand({
  operands: {},
  options: {
    out: { type: 'text', value: 'file', help: 'the package; default ./svc-export-<timestamp>.zip' },
    projects: { type: 'text', value: 'ids', help: 'only these projects, with commas between them' },
    'include-artifacts': { type: 'switch', default: true, help: 'leave out what was deployed' },
    'include-logs': { type: 'switch', default: true, help: 'leave out the deployments and their outputs' },
    recent: { type: 'count', value: 'number', help: 'of each project only so many deployments, the newest' },
    ignore: { ...packOptions.ignore, help: 'leave these files out of targets that are packed; a list has commas' },
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
    for (const pattern of options.ignore.flatMap(splitList)) query.append('ignore', pattern)
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

/** Into a file beside it, which takes the name once it is whole. */
async function download({ output }: Context, { client, path, query, signal }: Download): Promise<Manifest> {
  const waiting = `${path}.part`
  const startedAtMs = Date.now()
  const bar = output.progress('Exporting')
  try {
    // A file that is there keeps its mode, which others may read by.
    await rm(waiting, { force: true })
    await writeFile(waiting, '', { mode: 0o600, flag: 'wx' })
    const wanted = { client, query, bar, signal, route: '/api/migration/export', what: 'export', nothing: 'Nothing was exported' }
    await downloadZip(wanted, waiting)
    const manifest = await readManifest(waiting)
    await rename(waiting, path)
    const { projectIds, deploymentCount, artifacts } = manifest
    const what = [countOf(projectIds.length, 'project'), countOf(deploymentCount, 'deployment'), countOf(artifacts.length, 'artifact')]
    const { size } = await stat(path)
    bar.end(`Exported ${what.join(', ')}: ${formatBytes(size)} in ${humanDuration(Date.now() - startedAtMs)}`)
    return manifest
  } catch (error) {
    bar.clear()
    await rm(waiting, { force: true })
    throw error
  }
}

/** A package that breaks off has no table of contents: what can be opened is whole. */
async function readManifest(path: string): Promise<Manifest> {
  const written = await openPackage(path)
  written.close()
  return written.manifest as unknown as Manifest
}

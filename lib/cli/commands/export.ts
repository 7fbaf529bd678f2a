import { rename, rm, stat, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { countOf } from '../../base/text.js'
import { formatBytes } from '../../shared/size.js'
import { locateHome } from '../../config/home.js'
import type { Manifest } from '../../transfer/package.js'
import { openPackage } from '../../transfer/read-package.js'
import type { Client } from '../client/client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { withInterrupts } from '../terminal/prompt.js'
import { requireDatabase, withLocalApi } from '../client/local.js'
import { packOptions, sharedOptions } from '../common-options.js'
import { humanDuration, splitList } from '../terminal/words.js'
import { downloadZip } from '../client/files.js'

/** The command `svc export`. */
export const command = defineCommand({
  operands: {},
  options: {
    out: { type: 'text', value: 'file', help: 'package to write (default ./svc-export-<timestamp>.zip)' },
    projects: { type: 'text', value: 'ids', help: 'export only these projects; separate ids with commas' },
    'include-artifacts': { type: 'switch', default: true, help: 'leave out the archives and files of deployments' },
    'include-logs': { type: 'switch', default: true, help: 'leave out deployments and their outputs' },
    recent: { type: 'count', value: 'number', help: 'export only this many of the newest deployments of each project' },
    ignore: { ...packOptions.ignore, help: 'files to leave out when packing a target; separate several with commas' },
    'ignore-builtin': packOptions['ignore-builtin'],
    json: sharedOptions.json
  },
  details:
    'Works on the data directory of this machine (SVC_HOME), whether the server is running or not. The package\n' +
    'contains tokens. Only you can read the file; keep it that way.\n\n' +
    'For each project, the package contains the archive of the newest successful deployment. If that archive is\n' +
    'no longer kept, svc packs the target directory instead; --ignore and --no-ignore-builtin apply only in this\n' +
    'case.',
  examples: [
    ['export', 'export everything to a package in the current directory'],
    [
      'export --projects proj_abcdefghijklmnop --no-include-logs --out shop.zip',
      'export one project without its deployments'
    ]
  ],
  async run({ options }, context) {
    const { env, cwd, host } = context
    const home = locateHome(env, cwd)
    const at = new Date().toISOString().slice(0, 19).replaceAll(':', '-')
    const path = resolve(cwd, options.out ?? `svc-export-${at}.zip`)
    await requireDatabase(home, 'export')
    const query = new URLSearchParams()
    if (options.projects !== undefined) query.set('projects', options.projects)
    if (options.recent !== undefined) query.set('recent', String(options.recent))
    query.set('artifacts', String(options['include-artifacts']))
    query.set('logs', String(options['include-logs']))
    query.set('ignoreBuiltin', String(options['ignore-builtin']))
    for (const pattern of options.ignore.flatMap(splitList)) query.append('ignore', pattern)
    const manifest = await withInterrupts(host, signal =>
      withLocalApi(context, home, ({ client }) => download(context, { client, path, query, signal }))
    )
    for (const note of manifest.notes) context.output.warn(note)
    if (options.json) context.output.json({ path, ...manifest })
    else context.output.print(path)
    return exitCodes.success
  }
})

interface Download {
  client: Client
  path: string
  query: URLSearchParams
  signal: AbortSignal
}

/** Writes the package to a temporary file next to `path`, and renames it once it is complete. */
async function download({ output }: Context, { client, path, query, signal }: Download): Promise<Manifest> {
  const waiting = `${path}.part`
  const startedAtMs = Date.now()
  const bar = output.progress('Exporting')
  try {
    // Writing to an existing file would keep its mode, which may let other users read it.
    await rm(waiting, { force: true })
    await writeFile(waiting, '', { mode: 0o600, flag: 'wx' })
    const wanted = {
      client,
      query,
      bar,
      signal,
      route: '/api/migration/export',
      what: 'export',
      nothing: 'Nothing was exported'
    }
    await downloadZip(wanted, waiting)
    const manifest = await readManifest(waiting)
    await rename(waiting, path)
    const { projectIds, deploymentCount, artifacts } = manifest
    const what = [
      countOf(projectIds.length, 'project'),
      countOf(deploymentCount, 'deployment'),
      countOf(artifacts.length, 'artifact')
    ]
    const { size } = await stat(path)
    bar.end(`Exported ${what.join(', ')}: ${formatBytes(size)} in ${humanDuration(Date.now() - startedAtMs)}`)
    return manifest
  } catch (error) {
    bar.clear()
    await rm(waiting, { force: true })
    throw error
  }
}

/** Reads the manifest. An incomplete package has no central directory, so one that opens is complete. */
async function readManifest(path: string): Promise<Manifest> {
  const written = await openPackage(path)
  written.close()
  return written.manifest as unknown as Manifest
}

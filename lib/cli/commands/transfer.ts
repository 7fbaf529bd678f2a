import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { throughPart } from '../../base/files.js'
import { countOf, oneLine } from '../../base/text.js'
import { type Home, locateHome, writeConfig } from '../../base/config/home.js'
import { defaultServerUrl, storeProjectTokens } from '../../base/config/client-config.js'
import { type Project, shownLines } from '../../model/project.js'
import {
  type ImportBrings,
  type ImportResult,
  type PartResult,
  strategies,
  type Strategy
} from '../../model/transfer.js'
import { formatBytes } from '../../base/shared/api.js'
import { type Manifest, openPackage } from '../../carry/transfer/package.js'
import type { Client } from '../client/client.js'
import { sayingWait } from '../client/runs.js'
import { downloadZip, formBody } from '../client/files.js'
import { projectAmong } from '../client/named-project.js'
import {
  choice,
  type Context,
  defineCommand,
  exitCodes,
  type Family,
  number,
  option,
  toggle,
  usage
} from '../command.js'
import { packOptions, sharedOptions, adminDetails, adminOptions, deploymentOperand } from '../common-options.js'
import { withProgress } from '../terminal/output.js'
import { humanDuration, splitList, stampedName } from '../terminal/words.js'
import { withInterrupts, confirmation } from '../terminal/prompt.js'
import { requireDatabase, withLocalApi } from '../client/opened.js'
import { openAdmin } from '../client/session.js'

/** Time limit for the import, which includes extracting every artifact. */
const importLimitMs = 24 * 60 * 60_000

/** The commands for export packages, and for kept archives. */
export const commands = {
  export: defineCommand({
    options: {
      out: option('file', 'package to write (default ./svc-export-<timestamp>.zip)'),
      projects: option('projects', 'export only these, by id or name; separate several with commas'),
      'include-artifacts': toggle('leave out the archives and files of deployments', { default: true }),
      'include-logs': toggle('leave out deployments and their outputs', { default: true }),
      recent: number('number', 'export only this many of the newest deployments of each project'),
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
      ['export --projects shop --no-include-logs --out shop.zip', 'export one project without its deployments']
    ],
    async run({ options }, context) {
      const { env, cwd, host } = context
      const home = locateHome(env, cwd)
      const path = resolve(cwd, options.out ?? stampedName('svc-export', 'zip'))
      await requireDatabase(home, 'export')
      const query = new URLSearchParams()
      if (options.recent !== undefined) query.set('recent', String(options.recent))
      query.set('artifacts', String(options['include-artifacts']))
      query.set('logs', String(options['include-logs']))
      query.set('ignoreBuiltin', String(options['ignore-builtin']))
      for (const pattern of options.ignore.flatMap(splitList)) query.append('ignore', pattern)
      const manifest = await withInterrupts(host, signal =>
        withLocalApi(context, home, async ({ client }) => {
          const words = options.projects === undefined ? [] : splitList(options.projects)
          const known = words.length === 0 ? [] : await client.call('GET /api/projects', { signal })
          if (words.length > 0) query.set('projects', words.map(word => projectAmong(known, word).id).join(','))
          return await download(context, { client, path, query, signal })
        })
      )
      for (const note of manifest.notes) context.output.warn(note)
      context.output.result(options.json, { path, ...manifest }, path)
    }
  }),

  import: defineCommand({
    operands: { zip: { required: true, help: 'package written by "svc export"' } },
    options: {
      strategy: choice(strategies, 'what to do with records that already exist; merge keeps them, too', {
        default: 'skip-existing'
      }),
      'restore-artifacts': toggle('do not extract artifacts into the target directories', { default: true }),
      'with-access-settings': toggle(
        'also import settings that control access: tokens, addresses, client scripts, the webhook'
      ),
      'dry-run': toggle('show what would be imported, with every path, script and setting; change nothing'),
      yes: { ...sharedOptions.yes, help: 'overwrite without asking; required with --strategy overwrite' },
      json: sharedOptions.json
    },
    details:
      'Works on the data directory of this machine (SVC_HOME), whether the server is running or not. Imports all\n' +
      'records, or none. Then it extracts the artifacts into the target directories; other files there do not\n' +
      'change. It also stores the deploy tokens of the imported projects in the global configuration, so that this\n' +
      'machine can push.\n\n' +
      'A package can contain scripts, which run as the user of svc. Use --dry-run to inspect packages from other\n' +
      'people.',
    examples: [
      ['import svc-export-2026-01-31T12-00-00.zip --dry-run', 'show what would be imported'],
      ['import shop.zip --strategy overwrite --yes', 'replace existing records']
    ],
    async run({ options, operands }, context) {
      const { env, cwd, output, host } = context
      const strategy = options.strategy as Strategy
      if (strategy === 'overwrite' && !options.yes && !options['dry-run']) {
        throw new Refusal(
          'invalid',
          'confirmation_needed',
          'Nothing was imported: --strategy overwrite replaces existing records. Use --yes to confirm'
        )
      }
      const path = resolve(cwd, operands.zip)
      const { size, isFile } = await stat(path).then(
        found => ({ size: found.size, isFile: found.isFile() }),
        () => ({ size: 0, isFile: false })
      )
      if (!isFile) throw usage('zip', `<zip> cannot be "${operands.zip}": file not found`)
      const home = locateHome(env, cwd)
      const query = {
        strategy,
        accessSettings: String(options['with-access-settings']),
        restoreArtifacts: String(options['restore-artifacts']),
        dryRun: String(options['dry-run'])
      }
      const result = await withInterrupts(host, signal =>
        withLocalApi(context, home, async ({ client }) => {
          const result = await send(context, { client, path, bytes: size, query, signal })
          if (!options['dry-run']) await keepTokens(home, result, (await client.call('GET /api/projects')) as Project[])
          return result
        })
      )
      if (options.json) output.json(result)
      else report(context, result)
      if (options['dry-run'] && !options.json) reportBrought(context, result.brings)
      return result.artifacts.failed.length > 0 ? exitCodes.failed : exitCodes.success
    }
  }),

  'archive delete': defineCommand({
    operands: { deployId: deploymentOperand },
    options: {
      force: toggle('also delete an archive that an exact undo needs'),
      yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
      json: sharedOptions.json,
      ...adminOptions
    },
    details: `Nobody can roll back to the deployment afterwards. Its record, output and list of files stay. Refused while the
archive is needed: the deployment is in progress, its files are in the target, or nodes
get it.\n\n${adminDetails('admin')}`,
    examples: [['archive delete dep_abcdefghijklmnop', 'delete the archive after confirmation']],
    async run({ options, operands: { deployId } }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'Deleting an archive', done: 'deleted' })
      const { client } = await openAdmin(context, options)
      if (!(await isSure(`Delete the archive of ${deployId}? Nobody can roll back to it afterwards.`)))
        return exitCodes.failed
      const answer = await client.call('DELETE /api/deployments/:id/archive', {
        id: deployId,
        query: { force: options.force ? 'true' : undefined }
      })
      context.output.result(options.json, answer, `Deleted the archive of ${deployId}`)
      return exitCodes.success
    }
  })
} satisfies Family

interface Download {
  client: Client
  path: string
  query: URLSearchParams
  signal: AbortSignal
}

/** Writes the package to a temporary file next to `path`, and renames it once it is complete. */
async function download({ output }: Context, { client, path, query, signal }: Download): Promise<Manifest> {
  const startedAtMs = Date.now()
  const bar = output.progress('Exporting')
  try {
    const wanted = {
      client,
      query,
      bar,
      signal,
      route: '/api/migration/export',
      what: 'export',
      nothing: 'Nothing was exported'
    }
    const manifest = await throughPart(path, async part => {
      await downloadZip(wanted, part)
      return readManifest(part)
    })
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
    throw error
  }
}

/** Reads the manifest. An incomplete package has no central directory, so one that opens is complete. */
async function readManifest(path: string): Promise<Manifest> {
  const written = await openPackage(path)
  written.close()
  return written.manifest as unknown as Manifest
}

interface Sending {
  client: Client
  path: string
  bytes: number
  query: Record<string, string>
  signal: AbortSignal
}

async function send({ output }: Context, { client, path, bytes, query, signal }: Sending): Promise<ImportResult> {
  return await withProgress(output.progress(query['dryRun'] === 'true' ? 'Checking' : 'Importing'), async bar => {
    const file = { field: 'file', filename: 'package.zip', path, bytes }
    const body = formBody({ fields: {} }, file, sent => bar.update(sent, bytes))
    const { success: _, ...result } = await sayingWait({ client, note: output.note }, () =>
      client.json<ImportResult & { success: true }>({
        method: 'POST',
        path: '/api/migration/import',
        query,
        headers: { 'x-confirm-overwrite': 'yes' },
        body,
        answerLimitMs: importLimitMs,
        signal
      })
    )
    bar.end(`Read ${formatBytes(bytes)}`)
    return result
  })
}

/** Stores deploy tokens (import rules 2 and 3): of new projects, and with `overwrite` of all imported projects. */
async function keepTokens(home: Home, { strategy, projects }: ImportResult, all: Project[]): Promise<void> {
  const written = all.filter(({ id }) => projects.created.includes(id) || projects.replaced.includes(id))
  await writeConfig(home, config => {
    config.serverUrl ??= defaultServerUrl
    const isKept = (id: string): boolean => strategy !== 'overwrite' && Object.hasOwn(config.projectToken ?? {}, id)
    const tokens = written.filter(({ id }) => !isKept(id)).map(({ id, token }) => [id, token])
    if (tokens.length > 0) storeProjectTokens(config, Object.fromEntries(tokens), config.serverUrl)
  })
}

/** Prints everything in the package that could do harm, so that the user can inspect each path, script and setting. */
function reportBrought(
  { output: { print } }: Context,
  { settings, projects, deploymentScripts = [], logSources, notificationTargets }: ImportBrings
): void {
  if (settings.length > 0) print('\nSettings:')
  for (const { key, value } of settings) print(`  ${key} = ${value === null ? '(a secret)' : oneLine(value)}`)
  for (const project of projects) {
    print('')
    print(`Project ${oneLine(project.name)} (${project.id})`)
    print(`  deploys to ${oneLine(project.deployPath)}${project.hasArtifact ? ' and extracts its files there' : ''}`)
    if (project.runAs !== null) print(`  runs as the user ${oneLine(project.runAs)}`)
    if (project.allowClientScripts !== null) print(`  client scripts are ${project.allowClientScripts ? 'on' : 'off'}`)
    if (project.allowedEnv.length > 0) print(`  clients may set ${project.allowedEnv.join(', ')}`)
    for (const [field, words] of shownLines) {
      const value = project[field]
      if (value !== null) print(`  ${words} ${oneLine(value)}`)
    }
    for (const { name, value } of project.variables)
      print(
        `  variable ${name} ${value === null ? 'is a secret: set its value after the import' : `= ${oneLine(value)}`}`
      )
    printScript(print, 'pre-deploy script', project.preDeployScript)
    printScript(
      print,
      `post-deploy script${project.postDeployAsync ? ', in the background' : ''}`,
      project.postDeployScript
    )
    for (const { key, value } of project.others ?? [])
      if (/[\r\n]/.test(value) || key.endsWith('.command')) printScript(print, key, value)
      else print(`  ${oneLine(key)} = ${oneLine(value)}`)
  }
  for (const { projectId, step, script, deployments } of deploymentScripts) {
    print('')
    const title = `${step} script that a rollback of ${projectId} may run (${countOf(deployments, 'deployment')})`
    printScript(print, title, script)
  }
  if (logSources.length > 0) print('\nLog files:')
  for (const { projectId, filePath } of logSources) print(`  ${oneLine(filePath)} (${projectId})`)
  if (notificationTargets.length > 0) print('\nNotification targets:')
  for (const { name, address } of notificationTargets) print(`  ${oneLine(name)}: ${oneLine(address)}`)
}

function printScript(print: (line: string) => void, title: string, script: string): void {
  if (script.trim() === '') return
  print(`  ${title}:`)
  for (const line of script.replace(/\n$/, '').split('\n')) print(`    | ${oneLine(line)}`)
}

function report({ output }: Context, result: ImportResult): void {
  const rows: Array<[name: string, part: PartResult]> = [
    ['settings', result.settings],
    ['categories', result.categories],
    ['tags', result.tags],
    ['projects', result.projects],
    ['log sources', result.logSources],
    ['notification targets', result.notificationTargets],
    ['deployments', result.deployments],
    ['artifacts', result.artifacts]
  ]
  output.table(rows, [
    { header: result.dryRun ? 'WOULD BE' : 'IMPORTED', cell: ([name]) => name },
    { header: 'CREATED', cell: ([, part]) => String(part.created.length), align: 'right' },
    { header: 'REPLACED', cell: ([, part]) => String(part.replaced.length), align: 'right' },
    { header: 'SKIPPED', cell: ([, part]) => String(part.skipped.length), align: 'right' }
  ])
  for (const note of result.notes) output.warn(note)
  for (const { id, deployId, error } of result.artifacts.failed) {
    // Without --to, a rollback takes the release before the one whose archive this is.
    const again = deployId == null ? '' : ` or "svc rollback ${id} --to ${deployId}"`
    output.error(
      `The artifact of ${id} was not restored: ${error}. Its records were imported. Deploy it with "svc push"${again}`
    )
  }
}

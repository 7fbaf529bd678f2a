import { existsSync } from 'node:fs'
import { countOf } from '../../base/text.js'
import { type Home, locateHome, readConfig } from '../../base/config/home.js'
import type { Finding, Level } from '../../model/transfer.js'
import { openStore } from '../../core/store/durable-store.js'
import { ownDirectory } from '../../core/store/owner.js'
import {
  type DatabaseState,
  type Found,
  hasErrors,
  inspectDatabase,
  judge,
  lookAtPlaces,
  verifyArchives
} from '../../carry/transfer/verify.js'
import { createClient } from '../client/client.js'
import { localClient, runningOwner } from '../client/local.js'
import { openNamed } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, toggle, usage } from '../command.js'
import { projectDetails, serverOptions, sharedOptions } from '../common-options.js'
import { verifyProject, type VerifyView } from './target.js'

/** The command that verifies the data directory, or the files of a project. */
export const commands = {
  verify: defineCommand({
    operands: { projectId: { complete: 'projects', help: 'verify the files of this project on the server' } },
    options: {
      sums: toggle('with a project: print what "sha256sum -c" reads'),
      'check-server': toggle('without a project: also check that the server answers'),
      archives: toggle('without a project: also read every kept archive'),
      json: sharedOptions.json,
      ...serverOptions
    },
    details:
      'Without a project, it checks the data directory of this machine (SVC_HOME), whether the server is running or not:\n' +
      'the database, each target directory and the global configuration. The exit code is 1 if there are errors;\n' +
      'warnings do not count. --archives reads every byte of the kept archives, and names each release that a damaged file\n' +
      'affects.\n\n' +
      'With a project it is "svc files --deep": the server reads every file that svc put into the target, and compares contents, type and\n' +
      'permissions with what was deployed. Nothing is changed. The exit code is 1 if a file differs. --sums prints the\n' +
      `SHA-256 of the deployed files; run "sha256sum -c" with it in the target. Links are left out.\n\n${projectDetails('viewer')}`,
    examples: [
      ['verify', 'verify the data after an import or a move to another machine'],
      ['verify --check-server --json', 'verify the data and the server, for a script'],
      ['verify --archives', 'find out whether each release can be rolled back to'],
      ['verify shop', 'find out whether the files are those that were deployed'],
      ['verify shop --sums > sums', 'write a list for "sha256sum -c"']
    ],
    async run({ options, operands: { projectId } }, context) {
      if (projectId !== undefined) return verifyOnServer(projectId, options, context)
      const needsProject = (['sums', 'env', 'server', 'token'] as const).find(name => options[name])
      if (needsProject !== undefined) throw usage(`--${needsProject}`, `--${needsProject} needs a project`)
      const { env, cwd, output } = context
      const home = locateHome(env, cwd)
      const globalConfig = await readConfig(home)
      const database = await inspect(home, context)
      const places = await lookAtPlaces(database?.projects ?? [])
      const serverUrl = env['SVC_SERVER_URL'] || globalConfig.serverUrl
      const server = options['check-server'] && serverUrl ? await probe(serverUrl, env) : null
      const findings = judge({
        database,
        directory: home.directory,
        globalConfig: { ...globalConfig, serverUrl },
        places,
        server
      })
      if (options.archives) findings.push(...(await verifyArchives(home.deployments)))
      if (options.json) output.json({ ok: !hasErrors(findings), findings })
      else for (const finding of findings) print(context, finding)
      if (!options.json) summarise(context, findings)
      return hasErrors(findings) ? exitCodes.failed : exitCodes.success
    }
  })
} satisfies Family

type ProjectOptions = VerifyView &
  Record<'env' | 'server' | 'token', string | undefined> &
  Record<'check-server' | 'archives', boolean>

async function verifyOnServer(projectId: string, options: ProjectOptions, context: Context): Promise<number> {
  const { sums, json } = options
  if (options['check-server']) throw usage('--check-server', '--check-server cannot be combined with a project')
  if (options.archives) throw usage('--archives', '--archives cannot be combined with a project')
  if (sums && json) throw usage('--sums', '--sums cannot be combined with --json')
  return verifyProject(await openNamed(context, { ...options, project: projectId }), { sums, json }, context)
}

/** Asks the running server. If none is running, opens an existing database; never creates one. */
async function inspect(home: Home, { env, output }: Context): Promise<DatabaseState | null> {
  const running = await runningOwner(home)
  if (running !== null) return localClient(running, env).json({ path: '/api/migration/verify' })
  if (!existsSync(home.database)) return null
  const owner = await ownDirectory(home.directory)
  try {
    const store = await openStore({ directory: home.directory, warn: output.warn })
    try {
      return await inspectDatabase(store)
    } finally {
      await store.close()
    }
  } finally {
    await owner.release()
  }
}

async function probe(url: string, env: Context['env']): Promise<NonNullable<Found['server']>> {
  try {
    return { url, status: await createClient({ serverUrl: url, token: null, env }).probe() }
  } catch (error) {
    return { url, error: (error as Error).message }
  }
}

const marks: Record<Level, string> = { ok: '✔', warning: '!', error: '✗' }

function print({ output }: Context, { level, message, next }: Finding): void {
  const { paint } = output
  const colours: Record<Level, (text: string) => string> = { ok: paint.green, warning: paint.yellow, error: paint.red }
  output.print(`${colours[level](marks[level])} ${message}`)
  if (next !== null) output.print(`  → ${next}`)
}

function summarise({ output }: Context, findings: Finding[]): void {
  const count = (level: Level): number => findings.filter(finding => finding.level === level).length
  const [errors, warnings] = [count('error'), count('warning')]
  const summary =
    errors + warnings === 0 ? 'No problems found' : `${countOf(errors, 'error')}, ${countOf(warnings, 'warning')}`
  output.print(summary)
}

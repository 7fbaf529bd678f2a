import { existsSync } from 'node:fs'
import { countOf } from '../../base/count.js'
import { locateHome, readConfig, type Home } from '../../config/home.js'
import { openStore } from '../../store/durable-store.js'
import { ownDirectory } from '../../store/owner.js'
import type { Finding, Level } from '../../model/transfer.js'
import {
  hasErrors,
  inspectDatabase,
  judge,
  lookAtPlaces,
  type DatabaseState,
  type Found
} from '../../transfer/verify.js'
import { createClient } from '../client/client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { localClient, runningOwner } from '../client/local.js'
import { sharedOptions } from '../common-options.js'

/** The command `svc verify`. */
export const command = defineCommand({
  operands: {},
  options: {
    'check-server': { type: 'switch', help: 'also check that the server at serverUrl answers' },
    json: sharedOptions.json
  },
  details:
    'Checks the data directory of this machine (SVC_HOME), whether the server is running or not: the database, each\n' +
    'target directory and the global configuration. The exit code is 1 if there are errors; warnings do not count.',
  examples: [
    ['verify', 'verify the data after an import or a move to another machine'],
    ['verify --check-server --json', 'verify the data and the server, for a script']
  ],
  async run({ options }, context) {
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
    if (options.json) output.json({ ok: !hasErrors(findings), findings })
    else for (const finding of findings) print(context, finding)
    if (!options.json) summarise(context, findings)
    return hasErrors(findings) ? exitCodes.failed : exitCodes.success
  }
})

/** Asks the running server. If none is running, opens an existing database; never creates one. */
async function inspect(home: Home, { env, output }: Context): Promise<DatabaseState | null> {
  const running = await runningOwner(home)
  if (running !== null) return localClient(running, env).json({ path: '/api/migration/verify' })
  if (!existsSync(home.database)) return null
  const owner = await ownDirectory(home.directory)
  try {
    const store = await openStore({ directory: home.directory, warn: output.warn })
    try {
      return inspectDatabase(store)
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

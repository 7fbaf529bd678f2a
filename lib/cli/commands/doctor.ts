import { countOf } from '../../base/count.js'
import { Refusal } from '../../base/refusal.js'
import { maySend } from '../../config/token-origin.js'
import { locateHome } from '../../config/home.js'
import { createClient } from '../client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { diagnoseLocally, diagnoseServer, type Finding } from '../diagnosis.js'
import { loadConfiguration } from '../session.js'
import { adminDetails, sharedOptions } from '../common-options.js'

export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print {ok, findings} as JSON' }
  },
  details: `${adminDetails}\nWithout a token only the public probe is asked. Exit code 1 where something fails; warnings are no failure.`,
  examples: [
    ['doctor', 'look at this machine, and at the configured server'],
    ['doctor --server https://deploy.example.com --json', 'the same of another server, for a script']
  ],
  async run({ options }, context) {
    const { env, cwd, output } = context
    const findings = [...(await diagnoseLocally(locateHome(env, cwd))), ...(await diagnoseRemotely(options, context))]
    const failures = findings.filter(({ result }) => result === 'failure').length
    if (options.json) output.json({ ok: failures === 0, findings })
    else print(findings, context)
    return failures === 0 ? exitCodes.success : exitCodes.failed
  }
})

interface RemoteOptions {
  env: string | undefined
  server: string | undefined
  token: string | undefined
}

/** A configuration that cannot be read is a finding; a wrong option is not. */
async function diagnoseRemotely({ env, server, token }: RemoteOptions, context: Context): Promise<Finding[]> {
  try {
    const flags = { ...(server !== undefined && { server }), ...(token !== undefined && { token }) }
    const { config } = await loadConfiguration(context, { flags, env, project: 'optional' })
    const { serverUrl, adminToken } = config
    if (serverUrl === null) {
      const advice = 'Give it with --server or SVC_SERVER_URL, or store it with "svc config:set serverUrl <url>"'
      return [{ check: 'Server', result: 'warning', detail: 'not looked at: no address is configured', advice }]
    }
    const sent = adminToken !== null && maySend(adminToken, serverUrl.value) ? adminToken : null
    const whyNone = adminToken === null ? 'there is no admin token' : `the admin token from ${adminToken.from} belongs to ${adminToken.origin}`
    return await diagnoseServer(createClient({ serverUrl: serverUrl.value, token: sent, env: context.env }), sent, whyNone)
  } catch (error) {
    if (!(error instanceof Refusal) || error.kind === 'usage') throw error
    return [{ check: 'Configuration', result: 'failure', detail: error.message, advice: '"svc config" shows what counts here, and where it comes from' }]
  }
}

function print(findings: readonly Finding[], { output }: Context): void {
  const { paint } = output
  const signs = { pass: paint.green('✔'), warning: paint.yellow('!'), failure: paint.red('✘') }
  for (const { check, result, detail, advice } of findings) {
    output.print(`${signs[result]} ${paint.bold(check)}: ${detail}`)
    if (advice !== null) output.print(`    → ${advice}`)
  }
  const count = (result: Finding['result']): number => findings.filter(finding => finding.result === result).length
  output.print('')
  output.print(`${count('pass')} passed, ${countOf(count('warning'), 'warning')}, ${countOf(count('failure'), 'failure')}`)
}

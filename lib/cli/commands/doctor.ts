import { Refusal } from '../../base/errors.js'
import { countOf, parseUrl } from '../../base/text.js'
import { locateHome } from '../../base/config/home.js'
import { maySend } from '../../base/config/client-config.js'
import { createClient } from '../client/client.js'
import { type AdminOptions, loadConfiguration, openAdminApi } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'
import { diagnoseLocally, diagnoseServer } from '../doctor/diagnosis.js'
import { askForOwnNames, failure, type Finding, warning } from '../doctor/findings.js'
import { withInterrupts } from '../terminal/prompt.js'

/** The command that diagnoses problems. */
export const commands = {
  doctor: defineCommand({
    options: {
      ...adminOptions,
      site: option('url', 'also check that the site at this address refuses .svc-* names'),
      json: toggle('print {ok, findings} as JSON')
    },
    details: `${adminDetails('viewer')}\nWithout a token, only the public health probe is checked. The exit code is 1 if a check fails; warnings do not count.\n--site asks a web server on this machine, or on a host of the setting gate_hosts, for names that begin with\n.svc-. docs/maintenance.md has the rule for nginx and Caddy, and explains the answer.`,
    examples: [
      ['doctor', 'check this machine and the configured server'],
      ['doctor --server https://deploy.example.com --json', 'check this machine and another server, for a script']
    ],
    async run({ options }, context) {
      const { env, cwd, output } = context
      const findings = [
        ...(await diagnoseLocally(locateHome(env, cwd))),
        ...(await diagnoseRemotely(options, context)),
        ...(options.site === undefined ? [] : [await diagnoseSite(siteOf(options.site), options, context)])
      ]
      const failures = findings.filter(({ result }) => result === 'failure').length
      if (options.json) output.json({ ok: failures === 0, findings })
      else print(findings, context)
      return failures === 0 ? exitCodes.success : exitCodes.failed
    }
  })
} satisfies Family

/** Checks the server. A configuration that cannot be read becomes a finding; a wrong option is thrown. */
async function diagnoseRemotely({ env, server, token }: AdminOptions, context: Context): Promise<Finding[]> {
  try {
    const flags = { ...(server !== undefined && { server }), ...(token !== undefined && { token }) }
    const { config } = await loadConfiguration(context, { flags, env, project: 'optional' })
    const { serverUrl, adminToken } = config
    if (serverUrl === null) {
      const advice = 'Use --server or SVC_SERVER_URL, or store the address with "svc config:set serverUrl <url>"'
      return [warning('Server', 'not checked: no server address is configured', advice)]
    }
    const sent = adminToken !== null && maySend(adminToken, serverUrl.value) ? adminToken : null
    const whyNone =
      adminToken === null
        ? 'there is no token of the server'
        : `the token from ${adminToken.from} belongs to ${adminToken.origin}`
    return await diagnoseServer(
      createClient({ serverUrl: serverUrl.value, token: sent, env: context.env }),
      sent,
      whyNone
    )
  } catch (error) {
    if (!(error instanceof Refusal) || error.kind === 'usage') throw error
    const advice = 'Run "svc config" to see the effective configuration and its sources'
    return [failure('Configuration', error.message, advice)]
  }
}

/** Checks a site. The setting `gate_hosts` is read if there is an admin token; otherwise only this machine is asked. */
async function diagnoseSite(site: string, given: AdminOptions, context: Context): Promise<Finding> {
  const hosts = await gateHosts(given, context).catch(error => {
    if (error instanceof Refusal) return []
    throw error
  })
  return withInterrupts(context.host, signal => askForOwnNames(site, { hosts, signal }))
}

async function gateHosts({ env, server, token }: AdminOptions, context: Context): Promise<readonly string[]> {
  const flags = { ...(server !== undefined && { server }), ...(token !== undefined && { token }) }
  const { config } = await loadConfiguration(context, { flags, env, project: 'optional' })
  const settings = await (await openAdminApi(context, config)).call('GET /api/settings')
  return (settings['gate_hosts'] ?? '').split(/[\s,]+/).filter(Boolean)
}

/** Returns the address of a site. Refuses any other text with the kind `usage`. */
function siteOf(text: string): string {
  const url = parseUrl(text)
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') return url.href
  throw usage('--site', '--site must be an address without a user name, such as http://127.0.0.1/')
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
  output.print(
    `${count('pass')} passed, ${countOf(count('warning'), 'warning')}, ${countOf(count('failure'), 'failure')}`
  )
}

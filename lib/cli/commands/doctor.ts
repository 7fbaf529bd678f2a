import { isTlsRefusal, Refusal } from '../../base/errors.js'
import { countOf, parseUrl, oneLine } from '../../base/text.js'
import { locateHome, type Home, readConfig } from '../../base/config/home.js'
import { maySend } from '../../base/config/client-config.js'
import { createClient, type Client } from '../client/client.js'
import { type AdminOptions, loadConfiguration, openAdminApi } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'
import {
  askForOwnNames,
  failure,
  type Finding,
  warning,
  fleetFindings,
  pass,
  sharedNameFindings,
  tokenFindings,
  userFindings
} from '../doctor/findings.js'
import { localRestoreFindings, restoreFindings } from '../doctor/restore.js'
import { withInterrupts } from '../terminal/prompt.js'
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { bunVersion } from '../../base/runtime.js'
import { formatBytes } from '../../base/shared/api.js'
import type { HealthDetail } from '../../model/health.js'
import type { TerminalAvailability } from '../../model/terminal.js'
import { readDisk } from '../../operate/machine/resources.js'

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

const minNodeMajor = 18 // §4.13
const maxNamesShown = 10
const warnPercent = 85
const failPercent = 95 // §4.8
/** An unhealthy server answers in the same shape (§4.8). */
const unhealthy = 503

/** Checks this machine: the runtime, the data directory, its disk and the global configuration (§4.13). */
async function diagnoseLocally(home: Home): Promise<Finding[]> {
  const files = [
    await checkHome(home),
    await checkDisk(home),
    await checkConfig(home),
    ...(await checkKey('Secrets key', home.variablesKey)),
    ...(await checkKey('Audit key', join(home.keys, 'server.ed25519'))),
    ...(await localRestoreFindings(home))
  ]
  return [checkRuntime(process.versions.node, bunVersion), ...files]
}

/** Checks the runtime. Pure. `bun` is the version of Bun, if it runs svc; `version` is the Node version it emulates. */
export function checkRuntime(version: string, bun?: string): Finding {
  const major = Number(version.split('.')[0])
  if (bun !== undefined) return pass('Bun', `v${bun}, compatible with Node.js v${version}`)
  if (major >= minNodeMajor) return pass('Node.js', `v${version}`)
  return failure('Node.js', `v${version} is too old`, `Install Node.js ${minNodeMajor} or newer`)
}

async function checkHome(home: Home): Promise<Finding> {
  const { directory } = home
  const check = 'Data directory'
  const found = await stat(directory).catch(() => null)
  if (found === null)
    return warning(check, `${directory} does not exist yet`, 'Run "svc serve" or "svc config:set" to create it')
  const mayUse = await access(directory, constants.R_OK | constants.W_OK | constants.X_OK).then(
    () => true,
    () => false
  )
  if (!found.isDirectory() || !mayUse) {
    const why = found.isDirectory() ? 'cannot be read and written by this user' : 'is not a directory'
    return failure(
      check,
      `${directory} ${why}`,
      `Make it accessible to this user (chown, chmod u+rwx "${directory}"), or choose another with SVC_HOME`
    )
  }
  const othersRead = process.platform !== 'win32' && (found.mode & 0o077) !== 0
  if (othersRead) return warning(check, `Other users can read ${directory}`, `Run: chmod 700 "${directory}"`)
  return pass(check, directory)
}

async function checkDisk(home: Home): Promise<Finding> {
  const { freeBytes, percentUsed } = await readDisk(home.directory)
  if (freeBytes === null || percentUsed === null) {
    return warning(
      'Disk',
      'the free space is unknown',
      'Check it with df, or run this again once the data directory exists'
    )
  }
  return diskFinding('Disk', { freeBytes, percentUsed })
}

function diskFinding(
  check: string,
  { freeBytes, percentUsed }: { freeBytes: number | null; percentUsed: number }
): Finding {
  const detail = `${percentUsed} % used${freeBytes === null ? '' : `, ${formatBytes(freeBytes)} free`}`
  const advice = 'Free some space: lower keep_archives, delete old archives and logs, or enlarge the disk'
  if (percentUsed >= failPercent) return failure(check, detail, advice)
  return percentUsed >= warnPercent ? warning(check, detail, advice) : pass(check, detail)
}

async function checkConfig(home: Home): Promise<Finding> {
  const check = 'Global configuration'
  const found = await stat(home.configFile).catch(() => null)
  if (found === null)
    return warning(
      check,
      `${home.configFile} does not exist yet`,
      'Run "svc config:set serverUrl <url> --global" to create it'
    )
  try {
    await readConfig(home)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return failure(check, error.message, 'Correct the file with an editor; docs/configuration.md describes it')
  }
  const othersRead = process.platform !== 'win32' && (found.mode & 0o077) !== 0
  if (othersRead)
    return failure(
      check,
      `${home.configFile} contains tokens, and other users can read it`,
      `Run: chmod 600 "${home.configFile}"`
    )
  return pass(check, home.configFile)
}

/** Checks who can read a key. A missing key is no finding: it is created when it is first needed. */
async function checkKey(check: string, path: string): Promise<Finding[]> {
  const found = await stat(path).catch(() => null)
  if (found === null) return []
  const othersRead = process.platform !== 'win32' && (found.mode & 0o077) !== 0
  return [othersRead ? failure(check, `other users can read ${path}`, `Run: chmod 600 "${path}"`) : pass(check, path)]
}

const adviceFor = {
  starting: 'It is recovering from an interruption. Wait for it: svc health --wait 60',
  cut_off: 'It cannot follow its cluster, so reads are old and nothing can be changed there. See: svc cluster status',
  unhealthy: 'See the detailed checks (with the admin token or a named one) and the log of the server'
}

/** Checks the server with the public probe and, with a token, in detail. `whyNone` explains why there is no token. */
async function diagnoseServer(client: Client, token: { from: string } | null, whyNone: string): Promise<Finding[]> {
  const check = 'Server'
  const probe = await attempt(() => client.call('GET /api/health', { alsoStatus: unhealthy }))
  if (probe instanceof Refusal) return [failure(check, probe.message, serverAdvice(probe, client.address))]
  const version =
    probe.status === 'ok'
      ? pass(check, `${client.address} answers, version ${probe.version}`)
      : (probe.status === 'cut_off' ? warning : failure)(
          check,
          `${client.address} is ${probe.status}`,
          adviceFor[probe.status]
        )
  if (token === null) {
    return [
      version,
      warning(
        'Server details',
        `not checked: ${whyNone}`,
        'Give the admin token or a named one with --token or SVC_TOKEN'
      )
    ]
  }
  const detail = await attempt(() => client.call('GET /api/health/detail', { alsoStatus: unhealthy }))
  if (!(detail instanceof Refusal)) {
    const terminal = await attempt(() => client.call('GET /api/terminal/available'))
    const access = await attempt(() => client.call('GET /api/access/report'))
    const nodes = await attempt(async () => (await client.call('GET /api/nodes', { query: {} })).nodes)
    return [
      version,
      ...detailFindings(detail),
      ...secretFindings(detail),
      ...nameFindings(detail, client.address),
      ...revertFindings(detail),
      ...targetFindings(detail),
      ...archiveFindings(detail),
      ...certificateFindings(detail),
      ...notificationFindings(detail),
      ...auditFindings(detail),
      ...restoreFindings(detail),
      ...(terminal instanceof Refusal ? [] : [terminalFinding(terminal)]),
      // An older server has no report, and it needs an admin.
      ...(access instanceof Refusal
        ? []
        : [...tokenFindings(access), ...userFindings(access), ...sharedNameFindings(access)]),
      // An older server has no fleet.
      ...(nodes instanceof Refusal ? [] : fleetFindings(nodes))
    ]
  }
  if (detail.code === 'role_too_low' || detail.code === 'scope_too_narrow')
    return [version, warning('Server details', `not checked: ${detail.message}`, 'Use a token that is not limited')]
  const isToken = detail.kind === 'unauthorized' || detail.kind === 'forbidden'
  const advice = isToken
    ? `Correct the token from ${token.from}, or set a new one on the server with "svc admin reset-password"`
    : serverAdvice(detail, client.address)
  return [version, failure('Server details', detail.message, advice)]
}

function serverAdvice(refusal: Refusal, address: string): string {
  if (refusal.code === 'not_svc' || refusal.code === 'http_404')
    return 'Correct the address. It must include the path prefix of the server (serve --base)'
  if (isTlsRefusal(refusal.cause)) return 'Correct the address, the certificate, or what this machine trusts'
  return `Start the server with "svc serve", check that this machine can open ${address}, or correct the address with --server`
}

/** Returns the findings about the details of a server: the rules of §4.8, and more facts for operators. Pure. */
export function detailFindings(detail: HealthDetail): Finding[] {
  const { db, disk, kiteHome, deploy, runtime } = detail
  return [
    pass('Server runtime', `${runtime.name} ${runtime.version}`),
    db.ok
      ? pass('Database', `${db.latencyMs} ms`)
      : failure(
          'Database',
          `cannot write ${db.path}`,
          'Free some space on its disk, check the log of the server, and restart it'
        ),
    kiteHome.writable && kiteHome.tmpWritable
      ? pass('Server data directory', kiteHome.path)
      : failure(
          'Server data directory',
          `cannot write ${kiteHome.path}`,
          'Make it writable for the user that runs the server'
        ),
    disk.percentUsed === null
      ? pass('Server disk', 'unknown')
      : diskFinding('Server disk', { ...disk, percentUsed: disk.percentUsed }),
    deploy.last5[0]?.status === 'failed'
      ? warning(
          'Deployments',
          `the latest one failed (${oneLine(deploy.last5[0].projectName)})`,
          `Run: svc logs ${deploy.last5[0].id}`
        )
      : pass(
          'Deployments',
          deploy.successRate === null
            ? 'none yet'
            : `${percentOf(deploy.successRate)} % of the latest ${deploy.last5.length} succeeded`
        )
  ]
}

/**
 * Returns a warning if the server does not check host names. Pure. A server at a loopback address has no public name,
 * so there is no finding about it.
 */
export function nameFindings({ hostNamesChecked }: HealthDetail, address: string): Finding[] {
  const check = 'Host names'
  const { hostname } = new URL(address)
  if (hostNamesChecked === undefined || /^(localhost|127\..*|\[::1\])$/.test(hostname)) return []
  if (hostNamesChecked) return [pass(check, 'requests for other host names are refused')]
  const advice = `Start the server with SVC_PUBLIC_URL, or set allowed_hosts to "${hostname}"`
  return [warning(check, 'the server accepts every host name, even one that another site points at it', advice)]
}

/** Returns a failure for deployments whose earlier files could not be put back. Pure. */
export function revertFindings({ revertsPending = [] }: HealthDetail): Finding[] {
  const [first] = revertsPending
  if (first === undefined) return []
  const detail = `the files before ${revertsPending.map(oneLine).join(', ')} are not back yet`
  return [
    failure('Reverts', detail, `Run: svc logs ${oneLine(first)}. Mount the disk of the target, then restart the server`)
  ]
}

/** Returns a failure for targets in which a deployment was interrupted and could not be finished. Pure. */
export function targetFindings({ unfinishedTargets = [] }: HealthDetail): Finding[] {
  const [first] = unfinishedTargets
  if (first === undefined) return []
  const shown = unfinishedTargets.map(({ deployId, target }) => oneLine(`${target ?? 'a target'} (${deployId})`))
  const advice = `Mount the disk of the target, then restart the server or deploy again. If it is gone for good, run: svc target forget ${oneLine(first.deployId)}`
  return [failure('Targets', `half of a change may be in ${shown.join(', ')}`, advice)]
}

/** Returns when the kept archives were last checked; a failure if some are damaged. Pure. */
export function archiveFindings({ archives }: HealthDetail): Finding[] {
  if (archives === undefined) return []
  const { checkedAt, damaged } = archives
  if (checkedAt === null) return [pass('Archives', 'not checked yet')]
  const when = `checked on ${oneLine(checkedAt.slice(0, 10))}`
  if (damaged.length === 0) return [pass('Archives', `intact, ${when}`)]
  const advice = 'Restore them from a backup, or deploy these releases again and delete the archives'
  const shown = damaged.map(oneLine).join(', ')
  return [failure('Archives', `${when}: releases that cannot be rolled back to: ${shown}`, advice)]
}

/** Returns a finding for each certificate that expires soon (a warning) or has expired (a failure). Pure. */
export function certificateFindings({ certificates = [], serverTime }: HealthDetail): Finding[] {
  return certificates.map(({ name, expiresAt, cure }) => {
    const hasExpired = Date.parse(expiresAt) <= Date.parse(serverTime)
    const detail = `${oneLine(name)} ${hasExpired ? 'expired' : 'expires'} on ${oneLine(expiresAt.slice(0, 10))}`
    return (hasExpired ? failure : warning)('Certificates', detail, oneLine(cure))
  })
}

/** Time after which a waiting notification is a finding. */
const lateMs = 10 * 60_000

/** Returns a warning for notifications that a target does not accept. Pure. */
export function notificationFindings({ notifications, serverTime }: HealthDetail): Finding[] {
  const { waiting, oldestAt, refusing = [] } = notifications ?? { waiting: 0, oldestAt: null }
  const isLate = oldestAt !== null && Date.parse(serverTime) - Date.parse(oldestAt) >= lateMs
  const details = [
    ...(isLate ? [`${waiting} not accepted yet, the oldest of ${oldestAt}`] : []),
    ...(refusing.length > 0 ? [`the latest message was refused by ${refusing.map(oneLine).join(', ')}`] : [])
  ]
  return details.map(detail => warning('Notifications', detail, '"svc notify list" and the page Settings say why'))
}

/** Returns a failure for secrets that cannot be read: every deployment with a script that needs them fails. Pure. */
export function secretFindings({ secrets }: HealthDetail): Finding[] {
  const check = 'Project secrets'
  if (secrets === undefined) return []
  if (secrets.ok) return [pass(check, 'readable')]
  const names = secrets.unreadable.map(oneLine)
  const shown =
    names.slice(0, maxNamesShown).join(', ') +
    (names.length > maxNamesShown ? `, and ${names.length - maxNamesShown} more` : '')
  const advice =
    'Restore variables.key in the data directory from a backup. Or set variables and headers again, remove second factors ("svc admin reset-second-factor") and push releases again'
  return [failure(check, `cannot be read: ${oneLine(secrets.why ?? 'unknown reason')} (${shown})`, advice)]
}

/** Returns a failure for a damaged tree of the audit log, and for a key that cannot sign it. Pure. */
export function auditFindings({ audit }: HealthDetail): Finding[] {
  const check = 'Audit log'
  if (audit === undefined) return []
  const { keyProblem = null } = audit
  const key = keyProblem === null ? [] : [failure('Server key', oneLine(keyProblem), 'Until then, nothing is signed')]
  if (audit.ok) return [pass(check, 'its entries fit its tree'), ...key]
  const detail = `broken since ${oneLine(audit.brokenSince ?? 'an unknown time')}: ${oneLine(audit.why ?? 'unknown reason')}`
  const advice = 'Compare an export with checkpoints from elsewhere: svc audit export, svc audit verify --anchor'
  return [failure(check, detail, advice), ...key]
}

/** Returns the finding about the terminal. Pure. It is never a failure, since nothing else needs the terminal. */
export function terminalFinding({ available, reason = '', code }: TerminalAvailability): Finding {
  if (available) return pass('Terminal', 'available')
  if (code !== 'terminal_unavailable') return pass('Terminal', reason)
  return warning(
    'Terminal',
    reason,
    'Follow this advice if you want to use the terminal; everything else works without it'
  )
}

async function attempt<T>(work: () => Promise<T>): Promise<T | Refusal> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** Returns a share as a percentage. Older servers answer a percentage; their least one above 0 is 20. */
function percentOf(rate: number): number {
  return rate > 1 ? rate : Math.round(rate * 1000) / 10
}

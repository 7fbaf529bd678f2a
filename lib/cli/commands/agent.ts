import { resolve } from 'node:path'
import { systemClock } from '../../base/clock.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { readText } from '../../base/text.js'
import { parseServerUrl } from '../../base/config/client-config.js'
import { locateHome } from '../../base/config/home.js'
import { createExpiryWarnings, rereadCa } from '../../http/tls/expiry.js'
import { type Context, defineCommand, type Family, option, toggle, usage } from '../command.js'
import { readLabels } from '../fleet/nodes.js'
import {
  allowSystemPathsOption,
  logFormatOption,
  listeningOf,
  listeningOptions,
  requireSignaturesOption,
  openReadiness,
  untilStopped,
  whereTokenShows
} from '../service/running.js'
import { readTokenOption } from '../terminal/prompt.js'

/** The command that runs a node. */
export const commands = {
  agent: defineCommand({
    options: {
      hub: option(
        'url',
        'address of the hub; repeat it for the hubs of a cluster. It is stored, so it is needed once',
        { repeatable: true }
      ),
      enroll: option(
        'token',
        'one-time token of "svc fleet enroll", for the first start; - reads it from standard input'
      ),
      name: option('name', 'name of the node, if the token names none (default: the host name)'),
      label: option('key=value', 'label of the node, for the first start', { repeatable: true }),
      ca: option('file', 'certificates to trust for the hub, in PEM, instead of the usual ones'),
      'allow-http': toggle(
        'allow http addresses of hubs that are not on this machine: releases and variables can be read on the way. It is stored'
      ),
      relay: toggle('keep users of the hub from reading the pages of this node', { default: true }),
      terminal: toggle('turn the terminal off, here and for users of the hub', { default: true }),
      'allow-system-paths': allowSystemPathsOption,
      'require-signatures': requireSignaturesOption,
      ...listeningOptions,
      port: { ...listeningOptions.port, help: 'port to listen on (default: a free one)' },
      'log-format': logFormatOption,
      'ready-file': option('file', 'file to write the address to when the agent is ready; removed when it stops')
    },
    details:
      'Makes this machine a node of a fleet: it takes the releases that its hub rolls out. The agent opens all connections\n' +
      'itself, through HTTPS_PROXY if that is set, so the machine needs no open port.\n\n' +
      'The agent is a whole server without the panel, with its own data directory (SVC_HOME), deployments and undo. It\n' +
      'listens on this machine only, for local pushes when the hub cannot be reached.\n\n' +
      'SVC_ENROLL_TOKEN is used if --enroll is not given. After the first start, "svc agent" alone is enough.',
    examples: [
      ['agent --hub https://deploy.example.com --enroll -', 'make this machine a node; the token is read from stdin'],
      ['agent', 'start the agent again'],
      ['agent --hub https://hub.internal/base --ca hub-ca.pem', 'use another address, with a private authority']
    ],
    async run({ options }, context) {
      const { host, env, cwd, output } = context
      const listening = listeningOf(options, cwd)
      const hubs = options.hub.map(hubAddress)
      const labels = readLabels(options.label)
      const report = { info: output.print, warn: output.warn }
      const expiry = createExpiryWarnings(report.warn, systemClock)
      const ca = options.ca === undefined ? undefined : await readCa(options.ca, context)
      const given = options.enroll ?? (env['SVC_ENROLL_TOKEN'] || undefined)
      const enroll = given === undefined ? undefined : await readTokenOption(host, '--enroll', given)
      const isJson = options['log-format'] === 'json'
      if (isJson) output.logAsJson()
      const readiness = await openReadiness(options['ready-file'], context)
      const { startAgent } = await import('../../server/agent.js')
      const starting = startAgent({
        ...listening,
        home: locateHome(env, cwd),
        hubs,
        enroll,
        name: options.name,
        labels,
        ...(ca !== undefined && {
          ca: rereadCa({
            first: ca,
            read: () => readCa(options.ca as string, context),
            report,
            expiry,
            clock: systemClock
          })
        }),
        allowHttp: options['allow-http'],
        relay: options.relay,
        terminal: options.terminal,
        allowSystemPaths: options['allow-system-paths'],
        requireSignatures: options['require-signatures'],
        // Scripts must not inherit it.
        environment: { ...env, SVC_ENROLL_TOKEN: undefined },
        cwd,
        expiry,
        report,
        showsToken: whereTokenShows(isJson, host)
      })
      // A hub ends its own node with itself, even if it is killed (core/proc/kept-program.ts).
      process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
      process.channel?.unref()
      await untilStopped(starting, readiness, { host, note: output.note })
    }
  })
} satisfies Family

function hubAddress(text: string): string {
  const address = parseServerUrl(text)
  if (address !== null) return address
  throw usage('--hub', `--hub cannot be "${text}": it must be like "https://deploy.example.com"`)
}

async function readCa(path: string, { cwd }: Context): Promise<string> {
  const text = await readText(resolve(cwd, path)).catch((error: unknown) => {
    if (error instanceof Refusal) throw error
    throw usage('--ca', `Cannot read "${path}": ${reasonOf(error)}`)
  })
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text
  throw usage('--ca', `"${path}" contains no certificate in PEM`)
}

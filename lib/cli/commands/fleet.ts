import type { Client } from '../client/client.js'
import { locateHome } from '../../base/config/home.js'
import { countOf, oneLine, readText } from '../../base/text.js'
import { actorText, formatBytes } from '../../base/shared/api.js'
import type { ListedPlacement } from '../../model/node.js'
import { findProject } from '../client/named-project.js'
import { localClient, runningOwner } from '../client/local.js'
import { type AdminOptions, loadConfiguration, openAdmin } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, durationOption, sharedOptions } from '../common-options.js'
import {
  labelOption,
  labelWords,
  liveWords,
  nodeColumns,
  nodeOperand,
  nodeState,
  parsedLabel,
  placedLine,
  placementColumns,
  readLabels
} from '../fleet-view.js'
import { handOver, outOption } from '../named-tokens.js'
import { isLocalAddress } from '../project-options.js'
import { confirmation, readTokenOption } from '../terminal/prompt.js'
import { minuteOf, splitList } from '../terminal/words.js'
import { resolve } from 'node:path'
import { systemClock } from '../../base/clock.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { parseServerUrl } from '../../base/config/client-config.js'
import { createExpiryWarnings, rereadCa } from '../../http/tls/expiry.js'
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

const nodesOption = { type: 'text', value: 'node', repeatable: true, complete: 'nodes' } as const

/** The commands for nodes, for the projects on them, and of a node itself. */
export const commands = {
  'fleet nodes': defineCommand({
    options: {
      project: { ...sharedOptions.project, help: 'list only the nodes of this project, by its id or name' },
      label: option('key=value', 'list only the nodes with this label'),
      json: toggle('print the list as JSON'),
      ...adminOptions
    },
    details: `A named token that is limited to projects lists their nodes.\n\n${adminDetails('viewer')}`,
    examples: [
      ['fleet nodes', 'list all nodes with what they have'],
      ['fleet nodes --label zone=eu', 'list the nodes of one zone']
    ],
    async run({ options }, context) {
      const { output } = context
      const { client } = await openAdmin(context, options)
      const projectId = options.project === undefined ? undefined : (await findProject(client, options.project)).id
      const { nodes } = await client.call('GET /api/nodes', { query: { projectId, label: options.label } })
      if (options.json) output.json(nodes)
      else if (nodes.length > 0) output.table(nodes, nodeColumns(output.paint, Date.now()))
      else if (projectId !== undefined || options.label !== undefined) output.note('No node matches.')
      else output.note('There is no node. "svc fleet enroll" prints the command that makes a machine one.')
    }
  }),

  'fleet node': defineCommand({
    operands: { node: nodeOperand },
    options: { json: { ...sharedOptions.json, help: 'print the node as JSON' }, ...adminOptions },
    details: adminDetails('viewer'),
    examples: [['fleet node web-1', 'show a node and what it has of each project']],
    async run({ options, operands }, context) {
      const { output } = context
      const { client } = await openAdmin(context, options)
      const { node } = await client.call('GET /api/nodes/:node', { node: operands.node })
      if (options.json) return output.json(node)
      const { paint } = output
      output.print(`${paint.bold(node.name)} (${node.id}): ${nodeState(node, Date.now())}`)
      const facts = [
        labelWords(node.labels),
        node.version === null ? '' : `svc ${node.version}`,
        node.freeBytes === null ? '' : `${formatBytes(node.freeBytes)} free`,
        `enrolled ${node.enrolledAt.slice(0, 10)}`
      ]
      output.print(facts.filter(Boolean).join(', '))
      output.print('')
      if (node.placements.length === 0) output.print('No project is placed here. "svc fleet place" places one.')
      else
        output.table(node.placements, [
          { header: 'PROJECT', cell: ({ projectName }) => projectName, shrinkTo: 24 },
          { header: 'DIRECTORY', cell: ({ deployPath }) => deployPath, shrinkTo: 20, drop: 'last' },
          { header: 'HAS', cell: liveWords, shrinkTo: 20 }
        ])
    }
  }),

  'fleet enroll': defineCommand({
    fields: { seconds: { duration: '--for' }, labels: '--label' },
    options: {
      name: option('name', 'name of the node; default: the host name of the machine'),
      label: { ...labelOption, help: 'label of the node' },
      for: option('time', 'how long the token is valid, from 1m to 7d; default: 1h'),
      out: { ...outOption, help: 'write the token to a new file that only you can read, instead of the terminal' },
      json: toggle('print {enrollment, token, command} as JSON, with the token'),
      ...adminOptions
    },
    details:
      'Prints a token with which one machine becomes a node. Run "svc agent" with it on that machine. The token can be\n' +
      'used once. It contains the key of this server, so the machine takes orders from this server only. On the machine\n' +
      `of the server, as its user, neither address nor token is needed.\n\n${adminDetails('admin')}`,
    examples: [
      ['fleet enroll --name web-1 --label zone=eu', 'print the command that makes a machine the node web-1'],
      ['fleet enroll --for 10m --out node.token', 'write a token to a file, for "svc agent --enroll -"']
    ],
    async run({ options }, context) {
      const { name, label, out, json } = options
      const { output } = context
      if (out !== undefined && json) throw usage('--out', 'Use --out or --json, not both')
      const labels = readLabels(label)
      const seconds = options.for === undefined ? undefined : Math.round(durationOption('--for', options.for) / 1000)
      const { client, address } = await openHub(context, options)
      const enrolled = await client.call('POST /api/enrollments', { body: { name, labels, seconds } })
      const { enrollment, token } = enrolled
      // The server knows its public address. Its own command has it.
      const known = / --hub (\S+)$/.exec(enrolled.command)?.[1] as string
      const hub = address === null || isLocalAddress(address) ? known : address
      // An argument would be in the list of processes.
      const agent = `svc agent --hub ${hub}`
      const command = `SVC_ENROLL_TOKEN=${token} ${agent}`
      if (isLocalAddress(hub))
        output.warn(
          `only this machine reaches ${hub}. For another machine, use --server with the address that it uses, or set ` +
            'SVC_PUBLIC_URL for the server'
        )
      if (json) return output.json({ enrollment, token, command })
      output.note(`One machine may become a node until ${minuteOf(enrollment.expiresAt)}. On it, run:`)
      if (out === undefined) {
        output.print(command)
        return
      }
      output.note(`${agent} --enroll - < ${out}`)
      await handOver(token, out, context)
    }
  }),

  'fleet enrollments': defineCommand({
    options: {
      revoke: option('id', 'revoke this token instead of listing all'),
      json: toggle('print the list as JSON'),
      ...adminOptions
    },
    details: `A token leaves the list when a machine has used it, or when it expires.\n\n${adminDetails('admin')}`,
    examples: [
      ['fleet enrollments', 'list the tokens with which machines may become nodes'],
      ['fleet enrollments --revoke enr_abcdefghijklmnop', 'revoke a token']
    ],
    async run({ options: { revoke, json, ...options } }, context) {
      const { output } = context
      const { client } = await openAdmin(context, options)
      if (revoke !== undefined) {
        await client.call('DELETE /api/enrollments/:id', { id: revoke })
        output.print(`The enrollment token ${revoke} was revoked`)
        return
      }
      const { enrollments } = await client.call('GET /api/enrollments')
      output.list(json, enrollments, {
        empty: 'There is no valid enrollment token. "svc fleet enroll" creates one.',
        columns: [
          { header: 'ID', cell: ({ id }) => id },
          { header: 'NODE', cell: ({ name }) => name ?? 'its host name' },
          { header: 'LABELS', cell: ({ labels }) => labelWords(labels), shrinkTo: 8 },
          { header: 'BY', cell: ({ createdBy }) => actorText(createdBy), shrinkTo: 8 },
          { header: 'UNTIL', cell: ({ expiresAt }) => minuteOf(expiresAt) }
        ]
      })
    }
  }),

  'fleet set': defineCommand({
    fields: { labels: '--label' },
    operands: { node: nodeOperand },
    options: {
      name: option('name', 'new name, one word'),
      label: { ...labelOption, help: 'set a label; without a value (zone=) remove it' },
      json: { ...sharedOptions.json, help: 'print the node as JSON' },
      ...adminOptions
    },
    details: `Other labels stay. A rollout that has begun keeps its waves.\n\n${adminDetails('admin')}`,
    examples: [['fleet set web-1 --label zone=eu --label beta=', 'set one label, and remove another']],
    async run({ options, operands }, context) {
      const { name, label, json } = options
      const given = readLabels(label)
      if (name === undefined && label.length === 0) throw usage('--name', 'Nothing to change: give --name or --label')
      const { client } = await openAdmin(context, options)
      const before =
        label.length === 0 ? {} : (await client.call('GET /api/nodes/:node', { node: operands.node })).node.labels
      const labels = Object.fromEntries(Object.entries({ ...before, ...given }).filter(([, value]) => value !== ''))
      const change = { ...(name !== undefined && { name }), ...(label.length > 0 && { labels }) }
      const { node } = await client.call('PATCH /api/nodes/:node', { node: operands.node, body: change })
      context.output.result(json, node, () => `Changed "${node.name}": ${labelWords(node.labels) || 'no labels'}`)
    }
  }),

  'fleet place': defineCommand({
    fields: { deployPath: '--path' },
    operands: { project: { required: true, complete: 'projects', help: 'id or name of the project' } },
    options: {
      on: { ...nodesOption, help: 'node to add; separate several with commas' },
      label: { ...labelOption, help: 'add every node with this label' },
      path: option('dir', 'directory on these nodes; default: that of the project'),
      json: { ...sharedOptions.json, help: 'print the placements as JSON' },
      ...adminOptions
    },
    details:
      'A placed project is not deployed on the server itself: a push goes to its nodes, in waves. A node that is added\n' +
      `gets the release that is desired now, which is printed. Without --on and --label, the nodes of the project are listed.\n\n${adminDetails('admin')}`,
    examples: [
      ['fleet place shop --on web-1,web-2', 'place a project on two nodes'],
      ['fleet place shop --label zone=eu --path /srv/shop', 'place it on all nodes of a zone'],
      ['fleet place shop', 'list the nodes of a project with what they have']
    ],
    async run({ options, operands }, context) {
      const { output } = context
      const { label, path, json } = options
      const names = options.on.flatMap(splitList)
      const labels = label.map(parsedLabel)
      if (path !== undefined && names.length + labels.length === 0)
        throw usage('--path', '--path needs --on or --label')
      const { client } = await openAdmin(context, options)
      const { id, name } = await findProject(client, operands.project)
      for (const word of labels) {
        const { nodes: found } = await client.call('GET /api/nodes', { query: { label: word } })
        if (found.length === 0) throw usage('--label', `No node has the label ${word}`)
        names.push(...found.map(({ name }) => name))
      }
      const add = [...new Set(names)].map(node => ({ node, ...(path !== undefined && { deployPath: path }) }))
      const { placements, left }: { placements: ListedPlacement[]; left?: string } =
        add.length === 0
          ? { placements: (await client.call('GET /api/projects/:id/placements', { id })).placements }
          : await client.call('PATCH /api/projects/:id/placements', { id, body: { add } })
      if (json) output.json(placements)
      else if (placements.length === 0) output.note(`"${name}" is not placed on nodes: this server deploys it itself.`)
      else {
        if (add.length > 0) {
          output.note(`"${name}" is placed on ${countOf(placements.length, 'node')}.`)
          if (left !== undefined)
            output.note(`What is in ${oneLine(left)} on the server stays there. No deployment changes it any more.`)
          output.note(
            placedLine((await client.call('GET /api/rollouts', { query: { projectId: id, limit: 1 } })).rollouts[0])
          )
        }
        output.table(placements, placementColumns(output.paint, Date.now()))
      }
    }
  }),

  'fleet unplace': defineCommand({
    operands: { project: { required: true, complete: 'projects', help: 'id or name of the project' } },
    options: {
      from: { ...nodesOption, help: 'node to remove; separate several with commas' },
      all: toggle('remove the project from every node'),
      json: { ...sharedOptions.json, help: 'print the placements that are left as JSON' },
      ...adminOptions
    },
    details: `The files on the nodes stay. A project without nodes is deployed by the server itself again.\n\n${adminDetails('admin')}`,
    examples: [['fleet unplace shop --from web-2', 'take a project off a node']],
    async run({ options, operands }, context) {
      const { output } = context
      const names = options.from.flatMap(splitList)
      if (names.length === 0 && !options.all) throw usage('--from', 'Name a node with --from, or use --all')
      if (names.length > 0 && options.all) throw usage('--all', 'Use --from or --all, not both')
      const { client } = await openAdmin(context, options)
      const { id, name } = await findProject(client, operands.project)
      const remove = options.all
        ? (await client.call('GET /api/projects/:id/placements', { id })).placements.map(({ nodeId }) => nodeId)
        : names
      const { placements } =
        remove.length === 0
          ? { placements: [] }
          : await client.call('PATCH /api/projects/:id/placements', { id, body: { remove } })
      if (options.json) output.json(placements)
      else if (placements.length === 0) output.print(`"${name}" is not placed on nodes: this server deploys it itself`)
      else output.table(placements, placementColumns(output.paint, Date.now()))
    }
  }),

  'fleet drain': defineCommand({
    operands: { node: nodeOperand },
    options: { json: { ...sharedOptions.json, help: 'print the node as JSON' }, ...adminOptions },
    details: `A node that has begun to put files in place finishes that.\n\n${adminDetails('operator')}`,
    examples: [['fleet drain web-1', 'before its machine is taken down']],
    async run({ options, operands }, context) {
      const { client } = await openAdmin(context, options)
      const { node } = await client.call('PUT /api/nodes/:node/drain', { node: operands.node, body: { drained: true } })
      context.output.result(options.json, node, `Rollouts leave "${node.name}" out`)
    }
  }),

  'fleet undrain': defineCommand({
    operands: { node: nodeOperand },
    options: { json: { ...sharedOptions.json, help: 'print the node as JSON' }, ...adminOptions },
    details: `The node gets what is desired now.\n\n${adminDetails('operator')}`,
    examples: [['fleet undrain web-1', 'let the node take part again']],
    async run({ options, operands }, context) {
      const { client } = await openAdmin(context, options)
      const { node } = await client.call('PUT /api/nodes/:node/drain', {
        node: operands.node,
        body: { drained: false }
      })
      context.output.result(options.json, node, `"${node.name}" takes part in rollouts again`)
    }
  }),

  'fleet forget': defineCommand({
    operands: { node: nodeOperand },
    options: {
      yes: { ...sharedOptions.yes, help: 'do not ask before removing the node; required without a terminal' },
      ...adminOptions
    },
    details: `Removes a node from the fleet: its key is no longer accepted. Its files stay, and keep serving.\n\n${adminDetails('admin')}`,
    examples: [['fleet forget web-1 --yes', 'remove a node whose machine is gone']],
    async run({ options, operands }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'Removing a node' })
      const { client } = await openAdmin(context, options)
      const { node } = await client.call('GET /api/nodes/:node', { node: operands.node })
      if (!(await isSure(`Remove the node "${node.name}"?`))) return exitCodes.failed
      await client.call('DELETE /api/nodes/:node', { node: node.id })
      context.output.print(`The node "${node.name}" was removed. Its files stay`)
      return exitCodes.success
    }
  }),

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

/**
 * Opens the API of the fleet. If no address is configured and the hub runs on this machine, through its data directory:
 * then the address is null.
 */
async function openHub(context: Context, options: AdminOptions): Promise<{ client: Client; address: string | null }> {
  const { env, cwd } = context
  const { server, token } = options
  const { config } = await loadConfiguration(context, { flags: { server }, env: options.env, project: 'optional' })
  const owner = config.serverUrl === null && token === undefined ? await runningOwner(locateHome(env, cwd)) : null
  if (owner !== null) return { client: localClient(owner, env), address: null }
  const { client } = await openAdmin(context, options)
  return { client, address: client.address }
}

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

import type { EnrollAnswer, SessionAnswer, SignedHubKey } from '../../../model/fleet-wire.js'
import { enrollFields, rangesFields, reportFields, sessionFields } from '../../agent.js'
import { answer, media, query, type Operations } from '../operation.js'
import { terminalParameters } from './server.js'
import { success } from '../records/common.js'
import { list, record, text } from '../schema.js'

/** The operations of agents. model/fleet-wire.ts describes the exchange, and the texts that are signed. */
export const agentOperations: Operations = {
  'POST /api/agent/enroll': {
    summary: 'Make a machine a node',
    description:
      'For agents. The token is used up. Each later request of the agent is signed with the key that it sends here.',
    body: enrollFields,
    fields: {
      token: 'The enrollment token, `svcnode_…`',
      publicKey: 'The Ed25519 key of the agent: 32 bytes in base64',
      name: 'The name that the machine proposes. An enrollment with a name ignores it',
      labels: 'Labels of the node. Those of the enrollment take precedence',
      version: 'The version of svc on the machine'
    },
    answers: answer(
      'The node, and the key of the hub, with which orders are signed',
      record<{ success: true } & EnrollAnswer>({
        success,
        nodeId: text('node_1a2b3c4d5e6f7a8b'),
        name: text('plant-a1'),
        hubKey: text('MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAx')
      })
    ),
    errors: ['enrollment_invalid', 'name_taken', 'too_many_nodes']
  },
  'POST /api/agent/session': {
    summary: 'Begin a session of an agent',
    description:
      'For agents. The request names the session `-`, and has a nonce in place of the number, which counts once. Later requests of the agent name the session, each with another number. An agent that sends no body has protocol 1: it gets lines without seals.',
    body: sessionFields,
    fields: { protocol: 'The protocol of the agent: 2' },
    answers: answer(
      'The session, signed with the nonce',
      record<{ success: true } & SessionAnswer>({
        success,
        session: text('2-1-h0GZ2tq5v7Wm4c1x8Y3b6N9k2L5p8S1uV4y7B0e3H6k'),
        keys: list(record<SignedHubKey>({ hubKey: text('the 32 bytes in base64'), signature: text('base64') })),
        signature: text('base64')
      })
    ),
    errors: ['invalid_field', 'server_key']
  },
  'GET /api/agent/desired': {
    summary: 'Follow the orders of a node',
    description:
      'For agents. One JSON object a line: `welcome`, then the orders of the node, and each change of them. Each line has its number, and a signature as its last field. The stream does not end by itself.',
    parameters: [query('instance', 'Names the start of the agent: two that take turns are two machines')],
    answers: media('The lines', 'application/x-ndjson', {
      example:
        '{"type":"welcome","version":"2.0.0","heartbeatMs":15000,"hubs":[],"line":1,"ms":0,"seal":"…"}\n{"type":"heartbeat","line":2,"ms":15000,"seal":"…"}\n'
    })
  },
  'GET /api/agent/releases/:deployId': {
    summary: 'Read what a node needs to know about a release',
    description:
      'For agents. The directory, the settings and the variables of the project, and what the client of the push sent. The header `svc-signature` contains the signature of the hub.',
    answers: media('The release', 'application/json', {
      example: '{"deployId":"dep_1a2b3c4d5e6f7a8b","projectId":"proj_1a2b3c4d5e6f7a8b"}',
      headers: {
        'svc-signature':
          'The Ed25519 signature of the hub over the node, the session, the number of the request and the body, in base64'
      }
    }),
    errors: ['not_found', 'variables_key', 'server_key']
  },
  'GET /api/agent/blobs/:sha256': {
    summary: 'Download the archive of a release',
    description: 'For agents. Part of it with `Range`. All nodes together get at most the setting `fleet_upload_rate`.',
    answers: {
      ...media('The archive', 'application/zip'),
      206: { what: 'The part that `Range` names', media: 'application/zip' },
      416: { what: 'The part does not exist' }
    },
    errors: ['not_found']
  },
  'POST /api/agent/blobs/:sha256/ranges': {
    summary: 'Download parts of the archive of a release',
    description:
      'For agents that have most of it already. The parts follow one another, without anything in between. All nodes together get at most the setting `fleet_upload_rate`.',
    body: rangesFields,
    fields: { ranges: 'Offset and length of each part, in ascending order' },
    answers: media('The parts', 'application/octet-stream'),
    errors: ['not_found', 'wrong_digest']
  },
  'POST /api/agent/reports': {
    summary: 'Report what a node has',
    description: 'For agents. A repeated report changes nothing. An agent reports at least every 20 seconds.',
    body: reportFields,
    fields: {
      version: 'The version of svc on the machine',
      freeBytes: 'Free bytes where the agent keeps its data',
      answers: 'Answers to orders',
      placements: 'What is in place of each project that is placed on the node'
    },
    answers: answer('The report was stored', record<{ success: true }>({ success })),
    errors: ['wrong_digest']
  },
  'POST /api/agent/relays/:id': {
    summary: 'Send a part of the answer to a relayed request',
    description:
      'For agents. The first line of the first part is the status and the headers as JSON; the bytes of the body follow. Send a part again after 429. After 404, nobody waits for the answer.',
    parameters: [
      {
        in: 'query',
        name: 'part',
        description: 'The number of the part, from 1',
        schema: { type: 'integer', minimum: 1 }
      },
      { in: 'query', name: 'last', description: '`1`: it is the last part', schema: { type: 'string' } }
    ],
    textBody: { media: 'application/octet-stream', description: 'The bytes of the part', example: '' },
    answers: answer('The part was taken', record<{ success: true }>({ success })),
    errors: ['invalid_field', 'not_found', 'relay_full', 'wrong_digest', 'wrong_part']
  },
  'GET /api/nodes/:node/at/*path': {
    summary: 'Read a page of a node',
    description:
      'Answers what `GET /api/<path>` of the node answers to the same user, with the same query. Only paths about projects, deployments, files, logs, PM2, statistics and the state of the machine are relayed. Streams and downloads are relayed, too.',
    answers: media('The answer of the node', 'application/json'),
    errors: ['node_answer', 'node_away', 'node_silent', 'not_found', 'not_relayed', 'relay_off', 'too_many_relays']
  },
  'GET /api/nodes/:node/terminal': {
    summary: 'Open a terminal on a node',
    description: 'Opens a WebSocket, as `GET /api/terminal/ws` does, with a shell on the node.',
    parameters: terminalParameters,
    answers: { 101: { what: 'The connection is switched to the WebSocket protocol' } },
    errors: [
      'foreign_origin',
      'invalid_handshake',
      'node_away',
      'not_found',
      'upgrade_required',
      'websocket_unavailable'
    ]
  }
}

/**
 * Rooms by layer, lowest first. A file may import its own room and any lower layer. `core` is behind a wall: what decides
 * over files, records and proofs knows nothing of who asks.
 */
export const layers = [
  ['base/shared'],
  ['base'],
  ['base/config', 'model'],
  ['core/archive', 'core/store', 'core/proc'],
  ['core/install', 'core/audit'],
  ['core/proof'],
  ['http'],
  [
    'access',
    'projects',
    'deploy',
    'fleet',
    'operate/logs',
    'operate/machine',
    'operate/notify',
    'operate/pm2',
    'operate/telemetry',
    'operate/terminal',
    'carry/backup',
    'carry/transfer'
  ],
  ['cluster'],
  ['api'],
  ['server'],
  ['cli']
]
export const rooms = layers.flat()

/** Returns the room of a file of lib: the longest that its path begins with. */
export function roomOf(path: string): string {
  const room = rooms
    .filter(each => path.startsWith(`${each}/`) || path === `${each}.ts`)
    .sort((a, b) => b.length - a.length)[0]
  return room ?? path
}

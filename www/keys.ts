import { shownRooms } from './router.js'

/** An action of the frame that a key requests. */
export type Wish = { kind: 'palette' } | { kind: 'help' } | { kind: 'go'; address: string } | { kind: 'search' }

/** The used part of a keyboard event. */
export interface Key {
  key: string
  ctrlKey: boolean
  metaKey: boolean
  altKey: boolean
  /** Whether the user is typing text, so that only keys without text apply. */
  isWriting: boolean
}

/** Maximum time between `g` and its second key. */
const secondKeyMs = 1500

/** Creates the reader of shortcuts: `Ctrl-K`, `?`, `/`, and `g` with the key of a room. Pure except for its memory. */
export function createKeys(): (key: Key, atMs: number) => Wish | null {
  let wentMs = -Infinity
  return ({ key, ctrlKey, metaKey, altKey, isWriting }, atMs) => {
    if ((ctrlKey || metaKey) && !altKey && key.toLowerCase() === 'k') return { kind: 'palette' }
    if (isWriting || ctrlKey || metaKey || altKey) return null
    const isSecond = atMs - wentMs < secondKeyMs
    wentMs = -Infinity
    if (isSecond) {
      const room = shownRooms().find(room => room.key === key)
      return room === undefined ? null : { kind: 'go', address: room.first }
    }
    if (key === 'g') wentMs = atMs
    if (key === '?') return { kind: 'help' }
    if (key === '/') return { kind: 'search' }
    return null
  }
}

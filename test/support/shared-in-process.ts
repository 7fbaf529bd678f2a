/*
 * What the files of one process share (group.ts), such as a browser. A file that runs by itself shares nothing: what it
 * opens is closed at its end.
 */
let isShared = false
const open = new Map<string, { value: unknown; close(): unknown }>()

/** Keeps everything that is opened from now on open until `closeShared`. */
export function share(): void {
  isShared = true
}

/** Opens a resource for all files of this process. A file that runs alone closes it at the end of `t`. */
export async function openShared<T>(
  t: { teardown(work: () => unknown): void },
  name: string,
  opened: { open(): Promise<T>; close(value: T): unknown }
): Promise<T> {
  const known = open.get(name)
  if (known !== undefined) return known.value as T
  const value = await opened.open()
  if (isShared) open.set(name, { value, close: () => opened.close(value) })
  else t.teardown(() => opened.close(value))
  return value
}

export async function closeShared(): Promise<void> {
  for (const { close } of open.values()) await close()
  open.clear()
}

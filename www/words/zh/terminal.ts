import type { Words } from '../t.js'

/** Texts of `pages/terminal.ts`. */
export const words: Words = {
  'the terminal': '终端',
  Shell: '命令行',
  'Read output aloud': '朗读输出',
  'Directory of a new session': '新会话的起始目录',
  'Home directory': '主目录',
  'New session': '新建会话',
  'End the session {name}': '结束会话 {name}',
  'Start a new session': '开始新会话',
  'Connecting…': '正在连接…',
  'Connection lost': '连接已断开',
  Ended: '已结束',
  'The last input was dropped: the program does not read what it was given before.':
    '最后的输入已丢弃：程序尚未读取之前的输入。',
  'Connection lost. Reconnecting… The shell keeps running for two minutes, and its output will appear here.':
    '连接已断开，正在重试。命令行会继续运行两分钟，其输出会显示在此处。',
  'The server responds, but WebSocket connections fail. A proxy in between must forward the “Upgrade” and “Connection” headers.':
    '服务器有响应，但 WebSocket 无法到达：中间的代理必须转发 Upgrade 和 Connection 标头。',
  'No session is open': '没有打开的会话',
  'A session is a shell on the server. It keeps running while you view other pages, and ends when its tab is closed.':
    '会话是服务器上的一个命令行。查看其他页面时它会继续运行，关闭标签页时结束。',
  'No terminal on this server': '此服务器上没有终端',
  'The shell was terminated by {signal}.': '命令行被 {signal} 结束。',
  'The shell has exited.': '命令行已结束。',
  'The shell exited with code {code}.': '命令行已结束，退出码为 {code}。',
  'Keys missing on a phone': '手机上没有的按键',
  Up: '上',
  Down: '下',
  Left: '左',
  Right: '右',
  'Ctrl-F6 leaves the terminal': '按 Ctrl-F6 离开终端',
  'Output of {label}': '{label}的输出',
  'Find in the terminal': '在终端中查找',
  Find: '查找',
  'No match': '没有匹配',
  '{current} of {count}': '第 {current} 个，共 {count} 个',
  'Previous match': '上一个',
  'Next match': '下一个'
}

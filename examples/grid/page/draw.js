// SPDX-License-Identifier: Apache-2.0
// Draws the world around a view, and the small map of its subscriptions.

import {squareOf} from './world.js';

/** Pixels: of a player, and of a square on the map. */
const RADIUS = 13, MAP_SQUARE = 15;

/** The colours of the page's style sheet, which follow light and dark. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ['ground', 'line', 'ink', 'soft', 'shown', 'ahead'];
  names.push('red', 'blue', 'green', 'amber');
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
}

/** A 2d context whose unit is a pixel of CSS, however dense the screen is. */
export function fitted(canvas) {
  const density = devicePixelRatio, {clientWidth: width, clientHeight: height} = canvas;
  if (canvas.width !== Math.round(width * density)) canvas.width = Math.round(width * density);
  if (canvas.height !== Math.round(height * density)) canvas.height = Math.round(height * density);
  const context = canvas.getContext('2d');
  context.setTransform(density, 0, 0, density, 0, 0);
  return context;
}

export function drawWorld(canvas, world, view, scale, players, colour) {
  const context = fitted(canvas);
  context.fillStyle = colour.ground;
  context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  context.scale(scale, scale);
  context.translate(view.width / 2 - view.x, view.height / 2 - view.y);
  drawSquares(context, world, view, colour);
  context.font = '12px system-ui, sans-serif';
  context.textAlign = 'center';
  for (const player of players) drawPlayer(context, player, colour);
}

function drawSquares(context, world, view, colour) {
  const side = world.rules.square;
  context.strokeStyle = colour.line;
  context.fillStyle = colour.soft;
  context.font = '11px system-ui, sans-serif';
  context.textAlign = 'left';
  for (const channel of world.channels(view)) {
    const [column, row] = squareOf(channel);
    context.strokeRect(column * side, row * side, side, side);
    context.fillText(channel, column * side + 8, row * side + 18);
  }
}

function drawPlayer(context, {user, team, x, y, vx, vy, opacity, isMe}, colour) {
  context.globalAlpha = opacity;
  context.fillStyle = colour[team];
  context.beginPath();
  context.arc(x, y, RADIUS, 0, 2 * Math.PI);
  context.fill();
  if (isMe) {
    context.strokeStyle = colour.ink;
    context.lineWidth = 2;
    context.stroke();
    context.lineWidth = 1;
  }
  const speed = Math.hypot(vx, vy);
  if (speed) {
    context.fillStyle = colour.ground;
    context.beginPath();
    context.arc(x + 8 * vx / speed, y + 8 * vy / speed, 3, 0, 2 * Math.PI);
    context.fill();
  }
  context.fillStyle = colour.ink;
  context.fillText(user, x, y + RADIUS + 14);
  context.globalAlpha = 1;
}

/** Squares that are subscribed to, those of them on screen, and everybody in them. */
export function drawMap(canvas, world, view, heard, players, colour) {
  const context = fitted(canvas), side = world.rules.square, unit = MAP_SQUARE / side;
  const shown = world.channels(view);
  const placeOf = (x, y) => [
    canvas.clientWidth / 2 + (x - view.x) * unit, canvas.clientHeight / 2 + (y - view.y) * unit,
  ];
  context.fillStyle = colour.line;
  context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  for (const channel of heard) {
    const [column, row] = squareOf(channel), [x, y] = placeOf(column * side, row * side);
    context.fillStyle = shown.has(channel) ? colour.shown : colour.ahead;
    context.fillRect(x + 0.5, y + 0.5, MAP_SQUARE - 1, MAP_SQUARE - 1);
  }
  for (const player of players) {
    context.fillStyle = colour[player.team];
    context.fillRect(...placeOf(player.x, player.y).map((at) => at - 1), 3, 3);
  }
  context.strokeStyle = colour.ink;
  const corner = placeOf(view.x - view.width / 2, view.y - view.height / 2);
  context.strokeRect(...corner, view.width * unit, view.height * unit);
}
